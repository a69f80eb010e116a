/*
 * Asks the reference implementation (npm @coaty/core 2.4.1) what it makes of filters, joins, objects and event data, and
 * writes its answers into the JSON files beside this one:
 *
 *   NODE_PATH=<folder with @coaty/core 2.4.1>/node_modules node reference.js
 *
 * Where Weft answers differently on purpose, the entry says what Weft answers ("ours") and why.
 */
"use strict";
const fs = require("fs");
const path = require("path");
const core = require("@coaty/core");
const { InMemoryAdapter } = require("@coaty/core/db/adapter-in-memory");
const { DiscoverEventData, ResolveEventData } = require("@coaty/core/com/discover-resolve");
const { QueryEventData, RetrieveEventData } = require("@coaty/core/com/query-retrieve");
const { UpdateEventData, CompleteEventData } = require("@coaty/core/com/update-complete");
const { CallEventData, ReturnEventData } = require("@coaty/core/com/call-return");
const { AdvertiseEvent, AdvertiseEventData } = require("@coaty/core/com/advertise");
const { UpdateEvent } = require("@coaty/core/com/update-complete");
const { DeadvertiseEventData } = require("@coaty/core/com/deadvertise");
const { ChannelEventData } = require("@coaty/core/com/channel");
const { AssociateEventData } = require("@coaty/core/com/associate");

const origin = "answers of @coaty/core 2.4.1 on node " + process.version + ", by reference.js";
const lines = list => "[\n" + list.map(entry => JSON.stringify(entry)).join(",\n") + "\n]";
const write = (file, sections) => fs.writeFileSync(path.join(__dirname, file), "{\n" +
    Object.entries({ origin, ...sections }).map(([name, value]) =>
        JSON.stringify(name) + ": " + (Array.isArray(value) ? lines(value) : JSON.stringify(value))).join(",\n") + "\n}\n");
const id = n => `0b1ec700-0000-4000-8000-${String(n).padStart(12, "0")}`;

// --- filters: one object, every property against every operator ----------------------------------------------------

const object = {
    objectId: id(1), objectType: "com.example.Motor", coreType: "CoatyObject", name: "Motor 7",
    five: 5, half: 2.5, zero: 0, minus: -3, yes: true, no: false, nothing: null,
    word: "abc", loud: "ABC", empty: "", date: "2024-05-01T10:00:00Z", odd: "a_b%c\\d.e*", lines: "one\ntwo",
    tags: ["a", "b", "c"], numbers: [1, 2, 3], mixed: [1, "1", true, null, [2], { k: 1 }],
    nested: { x: 1, y: { z: "deep", list: [{ id: 1, v: "p" }, { id: 2, v: "q", w: [1, 2] }] } },
    "with.dot": { "in.ner": 9 },
};
const properties = ["five", "half", "zero", "minus", "yes", "no", "nothing", "word", "loud", "empty", "date", "odd",
    "lines", "tags", "numbers", "mixed", "nested", "nested.x", "nested.y.z", "nested.y.list", "nested.y.list.1.id",
    "nested.y.list.2", "tags.0", "tags.3", "tags.01", "tags.length", "word.length", "missing", "five.x", "nothing.x",
    ["with.dot", "in.ner"], ["with.dot"], "with.dot", []];
const numbers = [5, 2.5, 0, -3, 1, 1e21];
const strings = ["abc", "ABC", "abd", "", "b", "2024-05-01T10:00:00Z", "2025", "Motor 7"];
const values = [5, 0, 1, true, false, null, "abc", "", "1", ["a", "b", "c"], ["c", "a"], ["a"], [], {}, [1, 2], { x: 1 },
    { y: { z: "deep" } }, { y: { list: [{ v: "q" }] } }, { y: { list: [{ id: 1, v: "q" }] } }, { x: 2 }, [[2]], [{ k: 1 }],
    [{ k: 2 }], [{ v: "p" }, { id: 2 }], [{ w: [2] }], 9, { "in.ner": 9 }, object.nested, object.mixed];
const patterns = ["abc", "a%", "%c", "%b%", "a_c", "___", "____", "%", "", "_", "ABC", "a\\_b\\%c\\\\d.e*", "a\\_%", "%\\\\%",
    "a_b_c_d_e_", "one%", "one%two", "one_two", "%two", "a.c", "%%%", "%_%", "2024-%-01T%Z", "a\\bc", "abc\\", "d%", "%e*"];
const pairs = [[1, 5], [5, 1], [5, 5], [-3, 0], [2.5, 3], ["a", "b"], ["b", "a"], ["abc", "abc"], ["2024", "2025"], ["", "z"]];

const get = names => core.ObjectMatcher.getFilterPropertyValue(names, object);
// The documentation leaves open what comparing a number with a string means; so it is not asked.
const comparable = (value, operand) => value === undefined || typeof value === typeof operand ||
    (typeof operand === "number" && (value === null || typeof value === "boolean"));
const ask = condition => {
    try {
        return core.ObjectMatcher.matchesFilter(object, { conditions: condition });
    } catch (error) {
        return String(error);
    }
};

const matches = [], deviations = [];
for (const property of properties) {
    const value = get(property);
    const add = expression => {
        const condition = [property, expression];
        const entry = { condition: JSON.parse(JSON.stringify(condition)), reference: ask(condition) };
        const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
        const operand = expression[1];
        if ((expression[0] === 11 || expression[0] === 12) && isObject && (Array.isArray(operand) || operand === null)) {
            const ours = expression[0] === 12;
            if (ours === entry.reference) return matches.push(entry);
            deviations.push({ ...entry, ours, why: "an object contains neither arrays nor null; the reference takes the array for an object with numbers as keys, and fails on null" });
        } else {
            matches.push(entry);
        }
    };
    for (const op of [0, 1, 2, 3]) [...numbers, ...strings].filter(o => comparable(value, o)).forEach(o => add([op, o]));
    for (const op of [4, 5]) pairs.filter(([low]) => comparable(value, low)).forEach(pair => add([op, ...pair]));
    patterns.forEach(pattern => add([6, pattern]));
    for (const op of [7, 8, 11, 12]) values.forEach(v => add([op, v]));
    for (const op of [9, 10]) add([op]);
    for (const op of [13, 14]) [[], values, [1, 2, 3], ["abc", 5], [[1, 2, 3]], [null], [true, 1], ["1"]].forEach(v => add([op, v]));
}
for (const [condition, ours, why] of [
    [["five", [0, "6"]], false, "a number and a string have no order"],
    [["word", [2, 5]], false, "a number and a string have no order"],
    [["numbers", [0, 5]], false, "arrays have no order"],
    [["toString", [9]], false, "what JavaScript objects inherit is no property of the data"],
]) deviations.push({ condition, reference: ask(condition), ours, why });
const astral = { ...object, word: "😀" };
deviations.push({ object: astral, condition: ["word", [6, "_"]], ours: true, why: "an underscore is one character, not one UTF-16 unit",
    reference: core.ObjectMatcher.matchesFilter(astral, { conditions: ["word", [6, "_"]] }) });

const T = ["five", [7, 5]], F = ["five", [7, 6]];
const combined = [{}, { conditions: {} }, { conditions: { and: [] } }, { conditions: { or: [] } }, { conditions: T }, { conditions: F },
    { conditions: { and: [T] } }, { conditions: { or: [F] } }, { conditions: { and: [T, F] } }, { conditions: { or: [T, F] } },
    { conditions: { and: [T, T] } }, { conditions: { or: [F, F] } }, { conditions: { other: [F] } }, { skip: 1, take: 0 }]
    .map(filter => ({ filter, reference: core.ObjectMatcher.matchesFilter(object, filter) }));

// --- validity of filters and join conditions -------------------------------------------------------------------------

const attempt = check => {
    try {
        return !!check();
    } catch (error) {
        return false;
    }
};
const filterValidity = [{}, { conditions: null }, { conditions: [] }, { conditions: T }, { conditions: [T] }, { conditions: [T, F] },
    { conditions: { and: [T], or: [F] } }, { conditions: { and: T } }, { conditions: { and: null } }, { conditions: { and: [[]] } },
    { conditions: "five" }, { conditions: ["five", [15, 1]] }, { conditions: ["five", [-1, 1]] }, { conditions: ["five", ["7", 1]] },
    { conditions: ["five", [true, 1]] }, { conditions: ["five", []] }, { conditions: ["five"] }, { conditions: ["", [9]] },
    { conditions: [[], [9]] }, { conditions: [["a", "b"], [9]] }, { conditions: [["a", 1], [9]] }, { conditions: [5, [9]] },
    { conditions: ["five", [9], 1] }, { conditions: ["five", [7, 1, 2, 3]] }, { skip: 1 }, { take: 5 }, { skip: "1" }, { take: null },
    { orderByProperties: [] }, { orderByProperties: [["a", "Asc"]] }, { orderByProperties: [["a.b", "Desc"], [["c"], "Asc"]] },
    { orderByProperties: [["a", "asc"]] }, { orderByProperties: [["a"]] }, { orderByProperties: ["a", "Asc"] },
    { orderByProperties: [[["a", 1], "Asc"]] }, { orderByProperties: null }, { orderByProperties: {} }, null, [], "x", 5,
    { other: 1 }].map(filter => ({ filter, reference: attempt(() => filter !== undefined && core.isObjectFilterValid(filter)) }));
const J = { localProperty: "parentObjectId", asProperty: "parent" };
const joinValidity = [J, [J], [], [J, J], { ...J, isLocalPropertyArray: true }, { ...J, isOneToOneRelation: false },
    { ...J, isLocalPropertyArray: 1 }, { ...J, isOneToOneRelation: null }, { localProperty: "a" }, { asProperty: "a" }, {}, null, "x", 5,
    { ...J, localProperty: ["a"] }, { ...J, other: 1 }, [J, {}]]
    .map(conditions => ({ conditions, reference: attempt(() => core.areObjectJoinConditionsValid(conditions)) }));

// --- order, skip, take, joins: the in-memory store ---------------------------------------------------------------------

const item = (n, more) => ({ objectId: id(n), objectType: "com.example.Item", coreType: "CoatyObject", name: `item ${n}`, ...more });
const stock = [item(11, { rank: 3, label: "b", in: { depth: 2 } }), item(12, { rank: 1, label: "B", on: true }),
    item(13, { rank: 3, label: "a", in: { depth: 1 } }), item(14, { label: "é", on: false }), item(15, { rank: -2, label: "e" }),
    item(16, { rank: 2.5, label: "" }), item(17, { rank: 1, label: "A" }), item(18, { label: "f", on: true })];
const related = [item(21, { key: "a", group: 1 }), item(22, { key: "b", group: 1 }), item(23, { key: "b", group: true }),
    item(24, { key: null }), item(25, { group: 2 })];
const adapter = new InMemoryAdapter({ adapter: "InMemoryAdapter", connectionString: "in-memory://vectors" });
const find = async (collection, filter, joins) => {
    const found = [];
    const iterator = await adapter.findObjects(collection, filter, joins);
    await iterator.forEach(result => { found.push(result); });
    return found;
};

async function store() {
    for (const [name, objects] of [["stock", stock], ["related", related]]) {
        await adapter.addCollection(name);
        await adapter.insertObjects(name, objects);
    }
    const select = [];
    for (const filter of [{}, { take: 3 }, { skip: 5 }, { skip: 2, take: 2 }, { skip: 99 }, { orderByProperties: [["rank", "Asc"]] },
        { orderByProperties: [["rank", "Desc"]] }, { orderByProperties: [["label", "Asc"]] }, { orderByProperties: [["label", "Desc"]] },
        { orderByProperties: [["rank", "Asc"], ["label", "Desc"]] }, { orderByProperties: [["rank", "Desc"], ["name", "Desc"]] },
        { orderByProperties: [["in.depth", "Asc"]] }, { orderByProperties: [["on", "Asc"], ["rank", "Desc"]] },
        { orderByProperties: [["objectType", "Desc"]] }, { orderByProperties: [["missing", "Desc"], ["label", "Asc"]] },
        { conditions: ["rank", [3, 1]], orderByProperties: [["rank", "Asc"]], skip: 1, take: 2 },
        { conditions: { or: [["on", [7, true]], ["rank", [0, 0]]] } }])
        select.push({ filter, reference: (await find("stock", filter)).map(result => result.objectId) });
    const joins = [];
    const sources = [item(31, { ref: "a" }), item(32, { ref: "b", as: "old" }), item(33, { as: "old" }), item(34, { ref: "none", as: 1 }),
        item(35, { ref: ["a", "b", "b", "none"] }), item(36, { ref: id(21) }), item(37, { ref: 1 }), item(38, { ref: true }),
        item(39, { ref: null }), item(40, { ref: [] })];
    for (const source of sources) {
        for (const fromProperty of ["key", "group", "objectId"]) {
            for (const isLocalPropertyArray of [false, true]) {
                for (const isOneToOneRelation of [false, true]) {
                    if (isLocalPropertyArray && !Array.isArray(source.ref)) continue; // the reference fails, or takes letters for elements
                    const condition = { localProperty: "ref", asProperty: "as", isLocalPropertyArray, isOneToOneRelation };
                    await adapter.addCollection("source");
                    await adapter.clearCollection("source");
                    await adapter.insertObjects("source", source);
                    const [reference] = await find("source", {}, { ...condition, fromCollection: "related", fromProperty });
                    joins.push({ source, condition, fromProperty, reference });
                }
            }
        }
    }
    return { stock, select, related, joins };
}

// --- collation ---------------------------------------------------------------------------------------------------------

function collation() {
    let seed = 1;
    const random = n => (seed = (seed * 48271) % 2147483647) % n;
    const alphabets = ["abAB", "aáàâäãåeéêè", " !#-_.,:;'\"()[]{}@*/\\&%`^+<=>|~$", "abcxyzABCXYZ0129", "nñoöÖuüÜçÇ-_ ", "\t\n a\u0001"];
    const word = () => {
        const alphabet = Array.from(alphabets[random(alphabets.length)]);
        return Array.from({ length: random(6) }, () => alphabet[random(alphabet.length)]).join("");
    };
    return Array.from({ length: 1500 }, () => {
        const a = word(), b = random(4) ? word() : a.toUpperCase();
        return [a, b, Math.sign(core.ObjectMatcher.collator.compare(a, b))];
    });
}

// --- objects and event data: samples, and what becomes of them when members change ------------------------------------

const base = (coreType, more) => ({ objectId: id(50), objectType: "coaty." + coreType, coreType, name: "it", ...more });
const source = base("IoSource", { valueType: "t", updateRate: 100, updateStrategy: 2, useRawIoValues: false, externalRoute: "r" });
const samples = [
    base("CoatyObject", { parentObjectId: id(51), externalId: "x", locationId: id(52), isDeactivated: false, own: [1] }),
    base("Identity"), base("IoContext"),
    base("User", {
        names: { formatted: "A B", familyName: "B", givenName: "A", middleName: "", honorificPrefix: "", honorificSuffix: "" },
        displayName: "", nickName: "", title: "", userType: "", preferredLanguage: "", locale: "", timezone: "", active: true,
        password: "", emails: [{ type: "work", value: "a@b", primary: true, display: "" }], phoneNumbers: [], ims: [], photos: [],
        addresses: [{ type: "work", value: "x", formatted: "", streetAddress: "", locality: "", region: "", postalCode: "", country: "" }],
        groups: [], entitlements: [1], roles: ["r"], x509Certificates: ["c"],
    }),
    base("User", { names: { formatted: "A B" } }), base("User", { names: { familyName: "B", givenName: "A" } }),
    base("Annotation", { type: 7, creatorId: id(1), creationTimestamp: 1.5, status: 3, variants: [{ variant: "v", downloadUrl: "" }] }),
    base("Task", { creatorId: id(1), creationTimestamp: 1, startTimestamp: 2, duration: 3, status: 6, requirements: {}, description: "", assigneeObjectId: id(2) }),
    source, base("IoActor", { valueType: "t", updateRate: 0, useRawIoValues: true, externalRoute: "" }),
    base("IoNode", { ioSources: [source], ioActors: [], characteristics: {} }),
    base("Log", {
        logLevel: 20, logMessage: "", logDate: "d", logTags: ["t"], logLabels: {},
        logHost: {
            agentInfo: { packageInfo: { name: "", version: "" }, buildInfo: { buildDate: "", buildMode: "" }, configInfo: { serviceHost: "" } },
            pid: 1, hostname: "", userAgent: "",
        },
    }),
    base("Location", { geoLocation: { timestamp: 1, coords: { latitude: 1, longitude: 2, accuracy: 3, altitude: 4, altitudeAccuracy: 5, heading: 6, speed: 7 } } }),
    base("Snapshot", { parentObjectId: id(50), creationTimestamp: 5, creatorId: id(1), tags: ["t"], object: base("Identity") }),
];
const substitutes = [undefined, null, "", "x", 5, -1, true, [], {}, [""], [null], [5], ["x"]];

// Every member at any depth replaced by every substitute (undefined: removed): [changed, path, substitute].
function* mutations(sample) {
    for (const [name, value] of Object.entries(sample)) {
        const replaced = inner => Array.isArray(sample) ? [inner] : { ...sample, [name]: inner };
        if (!Array.isArray(sample)) for (const substitute of substitutes) yield [replaced(substitute), [name], substitute];
        if (value !== null && typeof value === "object" && (!Array.isArray(sample) || name === "0"))
            for (const [inner, where, substitute] of mutations(value)) yield [replaced(inner), [name, ...where], substitute];
    }
}
const change = (number, where, to, reference) => ({ sample: number, at: where.join("."), ...(to === undefined ? {} : { to }), reference });

const objects = [];
samples.forEach((sample, number) => {
    for (const [changed, where, substitute] of mutations(sample)) {
        if (where.join() === "creationTimestamp" && sample.coreType === "Snapshot" && substitute === -1) continue; // 1969
        const entry = change(number, where, substitute, !!core.CoreTypes.isObject(JSON.parse(JSON.stringify(changed))));
        if (where[where.length - 1] === "objectId" && entry.reference) Object.assign(entry, { ours: false, why: "COA-06: ids are UUIDs" });
        objects.push(entry);
    }
});

const plain = base("CoatyObject", { objectType: "com.example.A" });
const eventSamples = [
    ["ADV", { object: plain, privateData: { a: 1 } }], ["DAD", { objectIds: [id(1), id(2)] }],
    ["CHN", { object: plain, privateData: {} }], ["CHN", { objects: [plain, plain], privateData: {} }], ["CHN", { object: plain, objects: [plain] }],
    ["ASC", { ioSourceId: id(1), ioActorId: id(2), associatingRoute: "coaty/1/n/IOV", updateRate: 100 }],
    ["DSC", { objectId: id(1) }], ["DSC", { externalId: "e" }], ["DSC", { externalId: "e", objectId: id(1) }], ["DSC", { objectTypes: ["a"] }],
    ["DSC", { coreTypes: ["Task", "User"] }], ["DSC", { externalId: "e", objectTypes: ["a"] }], ["DSC", { externalId: "e", coreTypes: ["Task"] }],
    ["DSC", { objectTypes: ["a"], coreTypes: ["Task"] }], ["DSC", { externalId: "e", objectTypes: ["a"], coreTypes: ["Task"] }],
    ["DSC", { objectId: id(1), coreTypes: ["Task"] }], ["DSC", {}],
    ["RSV", { object: plain, relatedObjects: [plain], privateData: {} }], ["RSV", { object: plain }], ["RSV", { relatedObjects: [] }], ["RSV", {}],
    ["QRY", { objectTypes: ["a"], objectFilter: {}, objectJoinConditions: [J] }], ["QRY", { coreTypes: ["Task"], objectFilter: { take: 1 }, objectJoinConditions: J }],
    ["QRY", { coreTypes: ["Task"], objectTypes: ["a"], objectFilter: {} }],
    ["RTV", { objects: [plain], privateData: {} }], ["UPD", { object: plain }], ["CPL", { object: plain, privateData: {} }],
    ["CLL", { parameters: [1, null], filter: {} }], ["CLL", { parameters: { a: null }, filter: { conditions: T } }], ["CLL", {}],
    ["RTN", { result: { a: 1 }, executionInfo: { b: 2 } }], ["RTN", { error: { code: 1, message: "m" } }], ["RTN", { result: 1, error: { code: 1, message: "m" } }],
    ["RTN", { executionInfo: 1 }],
];
const creators = {
    ADV: d => new AdvertiseEvent(AdvertiseEventData.createFrom(d)), DAD: DeadvertiseEventData.createFrom, CHN: ChannelEventData.createFrom,
    ASC: AssociateEventData.createFrom, DSC: DiscoverEventData.createFrom, RSV: ResolveEventData.createFrom, QRY: QueryEventData.createFrom,
    RTV: RetrieveEventData.createFrom, UPD: d => new UpdateEvent(UpdateEventData.createFrom(d)), CPL: CompleteEventData.createFrom,
    CLL: CallEventData.createFrom, RTN: ReturnEventData.createFrom,
};
const unchanged = eventSamples.map(([event, data]) => ({ event, data, reference: attempt(() => creators[event](data)) }));
const events = [];
eventSamples.forEach(([event, sample], number) => {
    for (const [changed, where, substitute] of mutations(sample)) {
        const entry = change(number, where, substitute, attempt(() => creators[event](JSON.parse(JSON.stringify(changed)))));
        const deviate = (ours, why) => entry.reference !== ours && Object.assign(entry, { ours, why });
        const name = where[where.length - 1];
        if (["objectId", "ioSourceId", "ioActorId"].includes(name) && substitute !== undefined) deviate(false, "COA-06: ids are UUIDs");
        if (name === "objectIds" && substitute && substitute.length) deviate(false, "COA-06: ids are UUIDs");
        if (event === "QRY" && name === "objectFilter" && substitute === undefined && (sample.coreTypes === undefined || sample.objectTypes === undefined))
            deviate(true, "no filter is no demand; the reference fails");
        if (name === "take" && substitute === -1) deviate(false, "fewer than no objects cannot be taken");
        if (where[0] === "error" && name === "code" && typeof substitute !== "number") deviate(false, "a code is a number");
        if (where[0] === "error" && name === "message" && typeof substitute !== "string") deviate(false, "a message is text");
        events.push(entry);
    }
});
for (const [event, objectType] of [["ADV", "a/b"], ["UPD", "a+b"], ["ADV", "a#"], ["UPD", "a.b:c-d"]]) {
    const data = { object: { ...plain, objectType } };
    unchanged.push({ event, data, reference: attempt(() => creators[event](data)) });
}

// --- who is meant: Discover, Call ------------------------------------------------------------------------------------------

const candidates = [item(61, { externalId: "e1" }), item(62, { coreType: "Task" }), item(63, { objectType: "com.example.B" }), item(61, {})];
const discover = [{ objectId: id(61) }, { externalId: "e1" }, { externalId: "e1", objectId: id(61) }, { externalId: "e2", objectId: id(61) },
    { coreTypes: ["Task"] }, { coreTypes: [] }, { coreTypes: ["CoatyObject", "Task"] }, { objectTypes: ["com.example.B"] }, { objectTypes: [] },
    { externalId: "e1", objectTypes: ["com.example.Item"] }, { externalId: "e1", objectTypes: ["com.example.B"] }, { externalId: "e1", coreTypes: ["Task"] }]
    .map(data => ({ data, reference: candidates.map(candidate => DiscoverEventData.createFrom(data).matchesObject(candidate)) }));
const contexts = [undefined, {}, { floor: 3 }, { floor: 6 }];
const call = [{}, { filter: {} }, { filter: { conditions: ["floor", [4, 1, 5]] } }, { filter: { conditions: ["floor", [10]] } }]
    .map(data => ({ data, reference: contexts.map(context => CallEventData.createFrom(data).matchesFilter(context)) }));

store().then(stored => {
    write("filters.json", { object, matches, deviations, combined, ...stored, candidates, discover, contexts: contexts.map(c => c === undefined ? null : c), call });
    write("validity.json", { filters: filterValidity, joins: joinValidity, samples, objects, unchanged, events });
    write("collation.json", { pairs: collation() });
});
