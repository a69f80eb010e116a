#!/usr/bin/env node
/*
 * IO routing between two real Coaty agents in one process: one with an IO source and the router, one with an IO actor.
 *
 *   node io_agent.js NAMESPACE BOOTSTRAP_MADDR PEER_ID_FILE ACTOR_PEER_ID_FILE
 *
 * Only the first agent dials BOOTSTRAP_MADDR, so whoever listens there sees its Associate and IoValue events. The
 * process ends when stdin is closed.
 */
"use strict";
const fs = require("fs");
const core = require("@coaty/core");
const { BasicIoRouter, IoSourceController, IoActorController } = require("@coaty/core/io-routing");
const { Libp2pBinding } = require("@coaty/binding.libp2p");

const [namespace, bootstrap, sourceKey, actorKey] = process.argv.slice(2);
console.log = (...a) => process.stderr.write(a.join(" ") + "\n");
const emit = o => process.stdout.write(JSON.stringify(o) + "\n");
const uuid = n => `0000000${n}-0000-4000-8000-000000000000`;
const point = (kind, n) => ({ name: `${kind}${n}`, objectType: `coaty.${kind}`, coreType: kind, objectId: uuid(n), valueType: "temperature" });
const context = { name: "plant", objectType: "coaty.IoContext", coreType: "IoContext", objectId: uuid(9) };

function agent(name, keyFile, bootstrapPeer, ioNode, controllers, options) {
    return core.Container.resolve({ controllers }, {
        common: { agentIdentity: { name }, ioContextNodes: { [context.name]: ioNode } },
        communication: {
            shouldAutoStart: true,
            binding: Libp2pBinding.withOptions({
                namespace, logLevel: 2, listenAddresses: ["/ip4/127.0.0.1/tcp/0"], shouldDisableMdnsPeerDiscovery: true,
                bootstrapPeers: [bootstrapPeer], peerId: JSON.parse(fs.readFileSync(keyFile, "utf8")),
            }),
        },
        controllers: options,
    });
}

const until = (holds, then) => {
    const timer = setInterval(() => { if (holds()) { clearInterval(timer); then(); } }, 20);
};

const sources = agent("sources", sourceKey, bootstrap, { ioSources: [point("IoSource", 1)] },
    { BasicIoRouter, IoSourceController }, { BasicIoRouter: { ioContext: context } });
const sourcesManager = sources.communicationManager;
const node = () => sourcesManager._binding._node;
until(() => node() && node().isStarted(), () => {
    const address = `${node().transportManager.getAddrs()[0]}/p2p/${node().peerId.toB58String()}`;
    const actors = agent("actors", actorKey, address, { ioActors: [point("IoActor", 2)] }, { IoActorController }, {});
    const actor = actors.communicationManager.getIoNodeByContext(context.name).ioActors[0];
    actors.communicationManager.observeIoValue(actor).subscribe(value => emit({ ev: "IoValue", value }));
    const source = sourcesManager.getIoNodeByContext(context.name).ioSources[0];
    sourcesManager.observeIoState(source).subscribe(state => {
        if (state.data.hasAssociations) setTimeout(() => sourcesManager.publishIoValue(source, { celsius: 21.5 }), 500);
    });
});
process.stdin.resume().on("end", () => process.exit(0));
