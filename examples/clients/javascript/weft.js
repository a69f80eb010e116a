// A client of a Weft node in JavaScript, from mesh.proto alone: no Arrow, no code of Weft's.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node weft.js publish   ADDRESS ROOT.pem TOPIC PAYLOAD...          a receipt for each
//   node weft.js subscribe ADDRESS ROOT.pem PATTERN COUNT [GROUP]     so many events, one JSON object a line
//
// The API key is in the environment: WEFT_TOKEN. `weft context show` says where the root certificate is. WEFT_IDENTITY names
// a file with a key and its certificates, for a node that wants to see one (mTLS).
"use strict";
const fs = require("fs");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const PROTO = process.env.WEFT_PROTO || path.join(__dirname, "../../../src/weft/wire/mesh/mesh.proto");
const CREDIT_BYTES = 1 << 20; // how much may be under way to us

function connect(address, rootFile) {
  const definition = loader.loadSync(PROTO, { keepCase: true, longs: Number, defaults: true });
  const { Mesh } = grpc.loadPackageDefinition(definition).weft.mesh.v1;
  const identity = process.env.WEFT_IDENTITY ? fs.readFileSync(process.env.WEFT_IDENTITY) : null;
  return new Mesh(address, grpc.credentials.createSsl(fs.readFileSync(rootFile), identity, identity));
}

function metadata() {
  const found = new grpc.Metadata();
  found.set("authorization", `Bearer ${process.env.WEFT_TOKEN}`);
  return found;
}

// One stream for all that is published; every message is answered by a receipt or a refusal with its number.
function publish(client, topic, payloads) {
  return new Promise((resolve, reject) => {
    const stream = client.Publish(metadata());
    let owed = payloads.length;
    const settled = () => { if (--owed === 0) stream.end(); };
    stream.on("data", (reply) => {
      for (const each of (reply.receipts || { receipts: [] }).receipts) {
        console.log(JSON.stringify({ request: each.request, origin: each.stream.origin, offset: each.first_offset }));
        settled();
      }
      if (reply.refused) {
        console.error(`request ${reply.refused.request} was refused: ${reply.refused.error.message}`);
        process.exitCode = 1;
        settled();
      }
    });
    stream.on("error", reject);
    stream.on("end", resolve);
    stream.write({ open: {} });
    payloads.forEach((payload, number) => {
      const event = { payload: Buffer.from(payload), key: Buffer.from("from-js"), headers: { language: "JavaScript" } };
      stream.write({ events: { request: number + 1, topic, events: [event] } });
    });
  });
}

// Events come as far as our credit goes. What was taken is given back; a group also hears how far we are.
function subscribe(client, pattern, count, group) {
  return new Promise((resolve, reject) => {
    const stream = client.Subscribe(metadata());
    let generation = 0;
    let taken = 0;
    stream.on("data", (reply) => {
      if (reply.error) return reject(new Error(reply.error.message));
      if (reply.assignment) { // our part of the group's streams
        generation = reply.assignment.generation;
        stream.write({ handled: { generation } });
      }
      const piece = reply.delivery && reply.delivery.events;
      if (!piece) return;
      for (const event of piece.events) {
        if (taken++ === count) break;
        console.log(JSON.stringify({ topic: piece.stream.topic, offset: event.offset, key: event.key.toString(),
          headers: event.headers, payload: event.payload.toString() }));
      }
      if (group) {
        const next_offset = piece.events[piece.events.length - 1].offset + 1;
        stream.write({ handled: { generation, positions: [{ stream: piece.stream, next_offset }] } });
      }
      if (piece.credit_bytes) stream.write({ credit: { bytes: piece.credit_bytes } });
      if (taken >= count) stream.end();
    });
    stream.on("error", reject);
    stream.on("end", resolve);
    stream.write({ open: { pattern, group: group || "", member: "js", plain: true, credit_bytes: CREDIT_BYTES,
      start: { edge: "EDGE_EARLIEST" } } });
  });
}

async function main([command, address, rootFile, topic, ...rest]) {
  const client = connect(address, rootFile);
  if (command === "publish") await publish(client, topic, rest);
  else if (command === "subscribe") await subscribe(client, topic, Number(rest[0]), rest[1]);
  else throw new Error("publish or subscribe?");
  client.close();
}

main(process.argv.slice(2)).catch((error) => { console.error(error.details || error.message); process.exit(1); });
