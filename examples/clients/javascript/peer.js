// A peer of a Weft node in JavaScript, by the four messages of peerlink.proto: a node of its own, as far as the mesh knows.
//
//   npm install @grpc/grpc-js @grpc/proto-loader
//   node peer.js send ADDRESS TLS_DIR NODE_ID FIRST_OFFSET TOPIC PAYLOAD...   until all are acknowledged
//   node peer.js hear ADDRESS TLS_DIR NODE_ID COUNT                          so many events, one JSON object a line
//
// Peers show a certificate that names them: `weft ca issue NODE_ID --data DIR --to TLS_DIR` on the CA's machine.
"use strict";
const fs = require("fs");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const HEARTBEAT_MS = 2000;

function connect(address, directory) {
  const definition = loader.loadSync(path.join(__dirname, "peerlink.proto"), { keepCase: true, longs: Number, defaults: true, oneofs: true });
  const { PeerLink } = grpc.loadPackageDefinition(definition);
  const [root, identity] = ["root.pem", "identity.pem"].map((name) => fs.readFileSync(path.join(directory, name)));
  return new PeerLink(address, grpc.credentials.createSsl(root, identity, identity)); // key and certificates are in one file
}

// Who dials says hello first. From the node's hello on, both sides send what they have.
function link(client, nodeId, { onLinked, onEvent = () => {}, onAck = () => {} }) {
  return new Promise((resolve, reject) => {
    const stream = client.EventStream();
    const beating = setInterval(() => stream.write({ heartbeat: { timestamp: Date.now() } }), HEARTBEAT_MS);
    const end = () => { clearInterval(beating); stream.end(); };
    stream.on("data", (message) => {
      if (message.msg === "handshake") onLinked(stream);
      if (message.msg === "event") onEvent(stream, message.event, end);
      if (message.msg === "ack") onAck(message.ack, end);
    });
    stream.on("error", (error) => { clearInterval(beating); reject(error); });
    stream.on("end", () => { clearInterval(beating); resolve(); });
    stream.write({ handshake: { node_id: nodeId, protocol_version: 1 } });
  });
}

// Offsets are ours: of each topic one number after the other, over all of our links. The node acknowledges what it has synced:
// that and all before it. Once a link is new, begin behind the last one that was acknowledged.
function send(client, nodeId, [first, topic, ...payloads]) {
  const last = Number(first) + payloads.length - 1;
  return link(client, nodeId, {
    onLinked: (stream) => payloads.forEach((payload, number) => stream.write({
      event: { topic, offset: Number(first) + number, payload: Buffer.from(payload), headers: { language: "JavaScript" } } })),
    onAck: (ack, end) => {
      if (ack.topic !== topic) return;
      console.log(JSON.stringify({ topic: ack.topic, offset: ack.offset }));
      if (ack.offset >= last) end();
    },
  });
}

// The node numbers what it has for us, for each topic. What we do not acknowledge comes again on our next link.
function hear(client, nodeId, [count]) {
  let heard = 0;
  return link(client, nodeId, {
    onLinked: () => {},
    onEvent: (stream, event, end) => {
      if (heard === Number(count)) return;
      console.log(JSON.stringify({ topic: event.topic, offset: event.offset, headers: event.headers, payload: event.payload.toString() }));
      stream.write({ ack: { topic: event.topic, offset: event.offset } });
      if (++heard === Number(count)) end();
    },
  });
}

async function main([command, address, directory, nodeId, ...rest]) {
  const client = connect(address, directory);
  if (command === "send") await send(client, nodeId, rest);
  else if (command === "hear") await hear(client, nodeId, rest);
  else throw new Error("send or hear?");
  client.close();
}

main(process.argv.slice(2)).catch((error) => { console.error(error.details || error.message); process.exit(1); });
