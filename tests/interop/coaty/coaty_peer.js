#!/usr/bin/env node
/*
 * A real Coaty JS agent (@coaty/core + @coaty/binding.libp2p) driven by JSON lines.
 *
 *   node coaty_peer.js [--name N] [--ns NAMESPACE] [--listen MADDR] [--bootstrap MADDR]...
 *                      [--peer-id FILE.json] [--mdns] [--interval MS] [--settle MS] [--log 0|1|2]
 *
 * stdout: one JSON object per line, {"ev": ...}; binding log lines go to stderr.
 * stdin:  one JSON command per line, {"cmd": ..., ...}; every command is answered
 *         by {"ev":"done","cmd":...} or {"ev":"fail","cmd":...,"error":...}.
 *
 * Commands
 *   {"cmd":"observe","what":"Advertise","coreType":"CoatyObject"} (or "objectType")
 *   {"cmd":"observe","what":"Deadvertise"}
 *   {"cmd":"observe","what":"Channel","id":"ch"}
 *   {"cmd":"observe","what":"Raw","topic":"t"}
 *   {"cmd":"observe","what":"Call","operation":"op"}          answers {result:{echo:parameters}}, or "error":{code,message}
 *   {"cmd":"observe","what":"Discover","object":{..}}         resolves object (and "relatedObjects") if it matches
 *   {"cmd":"observe","what":"Query","objects":[..]}           retrieves them
 *   {"cmd":"observe","what":"Update","coreType":"CoatyObject"} completes with name + "!"
 *   {"cmd":"advertise","object":{..},"privateData":{..}}
 *   {"cmd":"deadvertise","objectIds":[..]}
 *   {"cmd":"channel","id":"ch","object":{..}} (or "objects")
 *   {"cmd":"raw","topic":"t","text":"..."} (or "hex")
 *   {"cmd":"burst","id":"ch","n":1000,"object":{..}}   {"cmd":"count","id":"ch","n":1000,"ms":20000}
 *   {"cmd":"call","operation":"op","parameters":{..}}
 *   {"cmd":"discover","coreTypes":[..]|"objectTypes":[..]|"objectId":"..."|"externalId":".."}
 *   {"cmd":"query","coreTypes":[..]|"objectTypes":[..],"filter":{..}}
 *   {"cmd":"update","object":{..}}
 *   {"cmd":"unobserve","what":"..","key":".."}   (same keys as observe)
 *   {"cmd":"dial","addr":"/ip4/../tcp/../p2p/.."}
 *   {"cmd":"hangup","id":"<peer id>"}
 *   {"cmd":"peers"}       {"cmd":"stop"}       {"cmd":"exit"}
 */
"use strict";
const fs = require("fs");
const readline = require("readline");

const argv = process.argv.slice(2);
const opts = { name: "js-agent", ns: "h-coaty", listen: [], bootstrap: [], log: 1 };
for (let i = 0; i < argv.length; i++) {
    switch (argv[i]) {
        case "--name": opts.name = argv[++i]; break;
        case "--ns": opts.ns = argv[++i]; break;
        case "--listen": opts.listen.push(argv[++i]); break;
        case "--bootstrap": opts.bootstrap.push(argv[++i]); break;
        case "--peer-id": opts.peerId = JSON.parse(fs.readFileSync(argv[++i], "utf8")); break;
        case "--mdns": opts.mdns = true; break;
        case "--interval": opts.interval = +argv[++i]; break;
        case "--settle": opts.settle = +argv[++i]; break;
        case "--log": opts.log = +argv[++i]; break;
        default: console.error("unknown option", argv[i]); process.exit(2);
    }
}

// Binding and core log with console.log: keep stdout clean for JSON lines.
console.log = (...a) => process.stderr.write(`[${opts.name}] ${a.join(" ")}\n`);
const emit = o => process.stdout.write(JSON.stringify(o) + "\n");

const core = require("@coaty/core");
const { Libp2pBinding } = require("@coaty/binding.libp2p");

const container = core.Container.resolve({}, {
    common: { agentIdentity: { name: opts.name } },
    communication: {
        shouldAutoStart: true,
        binding: Libp2pBinding.withOptions({
            namespace: opts.ns,
            logLevel: opts.log,
            listenAddresses: opts.listen.length ? opts.listen : ["/ip4/127.0.0.1/tcp/0"],
            bootstrapPeers: opts.bootstrap.length ? opts.bootstrap : undefined,
            shouldDisableMdnsPeerDiscovery: !opts.mdns,
            peerDiscoveryInterval: opts.interval,
            peerSettlingTimeWindow: opts.settle,
            peerId: opts.peerId,
        }),
    },
});
const cm = container.communicationManager;
const node = () => cm._binding._node;
const subs = new Map();

cm.observeCommunicationState().subscribe(s => emit({ ev: "state", state: core.CommunicationState[s] }));

// The libp2p node is created asynchronously by the binding: poll for it.
const poll = setInterval(() => {
    const n = node();
    if (!n || !n.isStarted()) return;
    clearInterval(poll);
    const id = n.peerId.toB58String();
    n.connectionManager.on("peer:connect", c => emit({ ev: "peer:connect", dir: c.stat.direction, id: c.remotePeer.toB58String() }));
    n.connectionManager.on("peer:disconnect", c => emit({ ev: "peer:disconnect", id: c.remotePeer.toB58String() }));
    n.on("peer:discovery", p => emit({ ev: "peer:discovery", id: p.toB58String() }));
    n.peerStore.on("change:protocols", p => emit({ ev: "protocols", id: p.peerId.toB58String(), protocols: p.protocols }));
    n.pubsub.on("pubsub:subscription-change", (p, s) => emit({ ev: "subs", id: p.toB58String(), subs: s.map(x => [!!x.subscribe, x.topicID]) }));
    const t = setInterval(() => {
        if (!cm._binding._isNodeReady) return;
        clearInterval(t);
        emit({ ev: "ready" });
    }, 20);
    emit({
        ev: "started", agentId: container.identity.objectId, peerId: id,
        addrs: n.transportManager.getAddrs().map(a => `${a}/p2p/${id}`.replace(/(\/p2p\/[^/]+)\1/, "$1")),
    });
}, 20);

const key = c => [c.what, c.coreType || (c.objectType && ":" + c.objectType) || c.id || c.topic || c.operation || ""].join(" ");

function observe(c) {
    const on = (obs, fn) => subs.set(key(c), obs.subscribe(fn));
    switch (c.what) {
        case "Advertise":
            return on(c.objectType ? cm.observeAdvertiseWithObjectType(c.objectType) : cm.observeAdvertiseWithCoreType(c.coreType),
                e => emit({ ev: "Advertise", sourceId: e.sourceId, data: e.data.toJsonObject() }));
        case "Deadvertise":
            return on(cm.observeDeadvertise(), e => emit({ ev: "Deadvertise", sourceId: e.sourceId, data: e.data.toJsonObject() }));
        case "Channel":
            return on(cm.observeChannel(c.id), e => emit({ ev: "Channel", id: c.id, sourceId: e.sourceId, data: e.data.toJsonObject() }));
        case "Raw":
            return on(cm.observeRaw(c.topic), ([topic, data]) => emit({ ev: "Raw", topic, hex: Buffer.from(data).toString("hex") }));
        case "Call":
            return on(cm.observeCall(c.operation), e => {
                emit({ ev: "Call", sourceId: e.sourceId, operation: e.operation, data: e.data.toJsonObject() });
                e.returnEvent(c.error ? core.ReturnEvent.withError(c.error.code, c.error.message)
                    : core.ReturnEvent.withResult({ echo: e.data.parameters }, { by: opts.name }));
            });
        case "Discover":
            return on(cm.observeDiscover(), e => {
                emit({ ev: "Discover", sourceId: e.sourceId, data: e.data.toJsonObject() });
                if (c.object && e.data.matchesObject(c.object)) e.resolve(core.ResolveEvent.withObject(c.object, c.relatedObjects));
            });
        case "Query":
            return on(cm.observeQuery(), e => {
                emit({ ev: "Query", sourceId: e.sourceId, data: e.data.toJsonObject() });
                e.retrieve(core.RetrieveEvent.withObjects(c.objects || []));
            });
        case "Update":
            return on(c.objectType ? cm.observeUpdateWithObjectType(c.objectType) : cm.observeUpdateWithCoreType(c.coreType), e => {
                emit({ ev: "Update", sourceId: e.sourceId, data: e.data.toJsonObject() });
                e.complete(core.CompleteEvent.withObject({ ...e.data.object, name: e.data.object.name + "!" }));
            });
        default: throw new Error("cannot observe " + c.what);
    }
}

function ask(name, observable) {
    const s = observable.subscribe(e => emit({ ev: name, sourceId: e.sourceId, data: e.data.toJsonObject() }),
        err => emit({ ev: "fail", cmd: name, error: String(err) }));
    setTimeout(() => s.unsubscribe(), 5000);
}

function discoverEvent(c) {
    const D = core.DiscoverEvent;
    if (c.externalId && c.objectId) return D.withExternalAndObjectId(c.externalId, c.objectId);
    if (c.externalId && c.coreTypes) return D.withExternalIdAndCoreTypes(c.externalId, c.coreTypes);
    if (c.externalId && c.objectTypes) return D.withExternalIdAndObjectTypes(c.externalId, c.objectTypes);
    if (c.externalId) return D.withExternalId(c.externalId);
    if (c.objectId) return D.withObjectId(c.objectId);
    return c.coreTypes ? D.withCoreTypes(c.coreTypes) : D.withObjectTypes(c.objectTypes);
}

async function run(c) {
    switch (c.cmd) {
        case "observe": return observe(c);
        case "unobserve": subs.get(key(c)).unsubscribe(); subs.delete(key(c)); return;
        case "advertise": return cm.publishAdvertise(core.AdvertiseEvent.withObject(c.object, c.privateData));
        case "deadvertise": return cm.publishDeadvertise(core.DeadvertiseEvent.withObjectIds(...c.objectIds));
        case "channel":
            return cm.publishChannel(c.objects ? core.ChannelEvent.withObjects(c.id, c.objects, c.privateData)
                : core.ChannelEvent.withObject(c.id, c.object, c.privateData));
        case "burst": // n Channel events in one go, named "<name> <i>"; observer counts them with "count"
            for (let i = 0; i < c.n; i++) cm.publishChannel(core.ChannelEvent.withObject(c.id, { ...c.object, name: `${i}` }));
            return;
        case "count": { // count Channel events on id, report order and rate once n arrived or after ms
            const got = []; let t0, t1, rep = false;
            const report = () => {
                if (rep) return;
                rep = true;
                s.unsubscribe();
                const uniq = new Set(got);
                emit({ ev: "count", id: c.id, n: got.length, unique: uniq.size, ordered: got.every((x, i) => i === 0 || got[i - 1] < x), ms: t1 - t0, first: got.slice(0, 20) });
            };
            const s = cm.observeChannel(c.id).subscribe(e => {
                t1 = Date.now(); t0 = t0 || t1;
                got.push(+e.data.object.name);
                if (got.length >= c.n) setTimeout(report, 300);
            });
            setTimeout(report, c.ms || 20000);
            return;
        }
        case "raw": return cm.publishRaw(core.RawEvent.withTopicAndPayload(c.topic, c.hex ? Uint8Array.from(Buffer.from(c.hex, "hex")) : c.text));
        case "call": return ask("Return", cm.publishCall(core.CallEvent.with(c.operation, c.parameters, c.filter)));
        case "discover": return ask("Resolve", cm.publishDiscover(discoverEvent(c)));
        case "query":
            return ask("Retrieve", cm.publishQuery(c.coreTypes ? core.QueryEvent.withCoreTypes(c.coreTypes, c.filter)
                : core.QueryEvent.withObjectTypes(c.objectTypes, c.filter)));
        case "update": return ask("Complete", cm.publishUpdate(core.UpdateEvent.withObject(c.object)));
        case "dial": await node().dial(c.addr); return;
        case "hangup": await node().hangUp(require("peer-id").createFromB58String(c.id)); return;
        case "peers":
            return emit({
                ev: "peers", connected: Array.from(node().connectionManager.connections.keys()),
                pubsub: Array.from(node().pubsub.peers.keys()),
                subs: Array.from(node().pubsub.subscriptions),
                topics: Object.fromEntries(Array.from(node().pubsub.topics, ([k, v]) => [k, Array.from(v)])),
                lastWills: Array.from(cm._binding._livelinessService._lastWills.values()),
            });
        case "stop": await cm.stop(); return;
        case "exit": return setTimeout(() => process.exit(c.code || 0), 0);
        default: throw new Error("unknown command");
    }
}

readline.createInterface({ input: process.stdin }).on("line", async line => {
    if (!line.trim()) return;
    let c;
    try {
        c = JSON.parse(line);
        await run(c);
        emit({ ev: "done", cmd: c.cmd });
    } catch (e) {
        emit({ ev: "fail", cmd: c && c.cmd, error: String(e && e.message || e) });
    }
}).on("close", () => process.exit(0));
