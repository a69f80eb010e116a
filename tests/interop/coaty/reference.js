#!/usr/bin/env node
/*
 * The reference's own codecs, for vectors whose meaning does not come from us.
 *
 *   node reference.js vectors            what the libraries make of fixed inputs, as one JSON object on stdout
 *   node reference.js explain < JSON     [{kind, hex}..] -> what each message means to the libraries
 *
 * Kinds: mplex, identify, rpc, mdns (an answer packet; with "service"), signature (a Floodsub message: is it valid?).
 */
"use strict";
const fs = require("fs");
const path = require("path");
const BufferList = require("bl/BufferList");
const PeerId = require("peer-id");
const multiaddr = require("multiaddr");
const varint = require("varint");
const multicastDns = require("multicast-dns");
const dnsPacket = require("dns-packet");
const cryptoKeys = require("libp2p-crypto").keys;
const mdnsQuery = require("libp2p-mdns/src/query");
const mplexCoder = require("libp2p-mplex/src/coder");
const multistream = require("multistream-select/src/multistream");
const { RPC } = require("libp2p-interfaces/src/pubsub/message");
const { verifySignature } = require("libp2p-interfaces/src/pubsub/message/sign");
const Identify = require("libp2p/src/identify/message");

const hex = bytes => Buffer.from(bytes).toString("hex");
const unhex = text => Buffer.from(text, "hex");
const readKey = type => JSON.parse(fs.readFileSync(path.join(__dirname, `peerid_${type}.json`), "utf8"));

// --- explain ---------------------------------------------------------------------------------------------------------

async function mplex(bytes) {
    const frames = [];
    for await (const messages of mplexCoder.decode([new BufferList(bytes)])) {
        frames.push(...messages.map(m => ({ number: m.id, flag: m.type, data: hex(m.data.slice()) })));
    }
    return frames;
}

function identify(bytes) {
    const m = Identify.decode(bytes);
    return {
        public_key: hex(m.publicKey), listen_addrs: m.listenAddrs.map(a => multiaddr(a).toString()), protocols: m.protocols,
        observed_addr: multiaddr(m.observedAddr).toString(), protocol_version: m.protocolVersion, agent_version: m.agentVersion,
    };
}

function rpc(bytes) {
    const m = RPC.decode(bytes);
    return {
        subscriptions: m.subscriptions.map(s => ({ wanted: s.subscribe, topic: s.topicID })),
        messages: m.msgs.map(x => ({
            origin: PeerId.createFromBytes(x.from).toB58String(), data: hex(x.data), seqno: hex(x.seqno),
            topics: x.topicIDs, signature: hex(x.signature), key: hex(x.key),
        })),
    };
}

function mdns(bytes, service) {
    const stranger = PeerId.createFromB58String("QmVTA1xy7GhC6DwGeTAuU8vCRLew3Kkm8UtJKG24c65oeX");
    const found = mdnsQuery.gotResponse(dnsPacket.decode(bytes), stranger, service);
    return found ? { peer: found.id.toB58String(), addresses: found.multiaddrs.map(String) } : null;
}

const signature = bytes => verifySignature(RPC.decode(bytes).msgs[0]).catch(error => String(error));

async function explain() {
    const kinds = { mplex, identify, rpc, mdns, signature };
    const answers = [];
    for (const item of JSON.parse(fs.readFileSync(0, "utf8"))) answers.push(await kinds[item.kind](unhex(item.hex), item.service));
    return answers;
}

// --- vectors ---------------------------------------------------------------------------------------------------------

async function keys() {
    const message = Buffer.from("signed by the reference");
    const out = [];
    for (const type of ["RSA", "Ed25519", "secp256k1"]) {
        const file = readKey(type);
        const id = await PeerId.createFromJSON(file);
        out.push({
            type, public_key: hex(id.pubKey.bytes), multihash: hex(id.toBytes()), peer_id: id.toB58String(),
            message: hex(message), signature: hex(await id.privKey.sign(message)),
        });
    }
    return out;
}

async function stretched() {
    const secrets = [Buffer.alloc(32, 7), Buffer.concat([Buffer.alloc(2), Buffer.alloc(64, 9)])];
    const out = [];
    for (const cipher of ["AES-256", "AES-128"]) for (const hash of ["SHA256", "SHA512"]) for (const secret of secrets) {
        const both = await cryptoKeys.keyStretcher(cipher, hash, secret);
        const plain = k => ({ iv: hex(k.iv), cipher_key: hex(k.cipherKey), mac_key: hex(k.macKey) });
        out.push({ cipher, hash, secret: hex(secret), first: plain(both.k1), second: plain(both.k2) });
    }
    return out;
}

function multiaddrs() {
    const peer = readKey("Ed25519").id, hashed = readKey("RSA").id;
    return [
        "/ip4/127.0.0.1/tcp/4001", `/ip4/192.0.2.7/tcp/65535/p2p/${peer}`, "/ip6/::1/tcp/0", `/ip6/2001:db8::7/tcp/80/p2p/${hashed}`,
        `/dns/example.org/tcp/443/p2p/${peer}`, "/dns4/a.example/tcp/1", "/dns6/b.example/tcp/2", `/p2p/${peer}`, "/ip4/10.0.0.1",
    ].map(text => ({ text, bytes: hex(multiaddr(text).bytes) }));
}

function varints() {
    return [0, 1, 127, 128, 300, 16383, 16384, 2 ** 28 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER]
        .map(value => ({ value, bytes: hex(varint.encode(value)) }));
}

function multistreamLines() {
    const protocols = ["/secio/1.0.0", "/mplex/6.7.0"];
    return {
        lines: ["/multistream/1.0.0", "/coaty/liveliness/1.0.0", "na", "ls"].map(text => ({ text, bytes: hex(multistream.encode(text).slice()) })),
        listing: { protocols, bytes: hex(multistream.encode(new BufferList(protocols.map(p => multistream.encode(p)))).slice()) },
    };
}

// multicast-dns with a socket that only keeps what it is given
function sentBy(act) {
    const sent = [];
    const socket = { on: () => 0, once: () => 0, send: bytes => sent.push(hex(bytes)) };
    act(multicastDns({ socket, bind: false }));
    return new Promise(resolve => setImmediate(() => resolve(sent[0])));
}

async function mdnsPackets() {
    const out = [];
    for (const namespace of ["weft", "com.example.plant-7"]) {
        const service = `coaty-libp2p-${namespace}.local`;
        const query = await sentBy(m => clearInterval(mdnsQuery.queryLAN(m, service, 1e6)));
        out.push({ kind: "query", namespace, packet: query });
        const id = await PeerId.createFromJSON(readKey("Ed25519"));
        const addresses = ["/ip4/192.0.2.7/tcp/4001", "/ip4/192.0.2.8/tcp/4001", "/ip6/2001:db8::7/tcp/4001"];
        const packet = await sentBy(m => mdnsQuery.gotQuery(dnsPacket.decode(unhex(query)), m, id, addresses.map(a => multiaddr(a)), service, true));
        out.push({ kind: "answer", namespace, packet, hostname: require("os").hostname(), ...mdns(unhex(packet), service) });
    }
    return out;
}

async function vectors() {
    return {
        keys: await keys(), stretched: await stretched(), multiaddrs: multiaddrs(), varints: varints(),
        multistream: multistreamLines(), mdns: await mdnsPackets(),
    };
}

const commands = { vectors, explain };
// The hostname goes into mDNS answers: a fixed one, so that the vectors do not tell where they were made.
require("os").hostname = () => "plant-host";
commands[process.argv[2]]().then(result => process.stdout.write(JSON.stringify(result, null, 1) + "\n"));
