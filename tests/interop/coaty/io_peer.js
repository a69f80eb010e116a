#!/usr/bin/env node
/*
 * A real Coaty agent with IO points and no router: whoever is connected associates them.
 *
 *   node io_peer.js NAMESPACE BOOTSTRAP_MADDR PEER_ID_FILE
 *
 * Its IO context is "plant". Source 1 and actor 2 have JSON values, source 3 and actor 4 raw ones. A source publishes
 * once when it is associated. stdout: {"ev":"IoState"|"IoValue", "point":n, ...} and {"ev":"ready"}, one per line. The
 * process ends when stdin is closed.
 */
"use strict";
const fs = require("fs");
const core = require("@coaty/core");
const { Libp2pBinding } = require("@coaty/binding.libp2p");

const [namespace, bootstrap, keyFile] = process.argv.slice(2);
console.log = (...a) => process.stderr.write(a.join(" ") + "\n");
const emit = o => process.stdout.write(JSON.stringify(o) + "\n");
const point = (kind, n, raw) => ({
    name: `${kind}${n}`, objectType: `coaty.${kind}`, coreType: kind, objectId: `0000000${n}-0000-4000-8000-000000000000`,
    valueType: "temperature", useRawIoValues: raw,
});
const values = { 1: { celsius: 21.5 }, 3: Uint8Array.from([0, 255, 7]) };

const manager = core.Container.resolve({}, {
    common: {
        agentIdentity: { name: "io" },
        ioContextNodes: {
            plant: {
                ioSources: [point("IoSource", 1), point("IoSource", 3, true)],
                ioActors: [point("IoActor", 2), point("IoActor", 4, true)],
            },
        },
    },
    communication: {
        shouldAutoStart: true,
        binding: Libp2pBinding.withOptions({
            namespace, logLevel: 2, listenAddresses: ["/ip4/127.0.0.1/tcp/0"], shouldDisableMdnsPeerDiscovery: true,
            bootstrapPeers: [bootstrap], peerId: JSON.parse(fs.readFileSync(keyFile, "utf8")),
        }),
    },
}).communicationManager;

const node = manager.getIoNodeByContext("plant");
const number = p => +p.name.slice(-1);
for (const p of [...node.ioSources, ...node.ioActors]) {
    manager.observeIoState(p).subscribe(state => {
        emit({ ev: "IoState", point: number(p), has: state.data.hasAssociations, rate: state.data.updateRate });
        if (state.data.hasAssociations && p.coreType === "IoSource") manager.publishIoValue(p, values[number(p)]);
    });
}
for (const p of node.ioActors) {
    manager.observeIoValue(p).subscribe(value => emit({
        ev: "IoValue", point: number(p), value: p.useRawIoValues ? Buffer.from(value).toString("hex") : value,
    }));
}
const timer = setInterval(() => {
    if (!manager._binding._isNodeReady) return;
    clearInterval(timer);
    emit({ ev: "ready" });
}, 20);
process.stdin.resume().on("end", () => process.exit(0));
