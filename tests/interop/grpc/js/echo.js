// A client and a server of ../echo.py's service on @grpc/grpc-js.
//
//   node echo.js serve [TLS]         serve on a free port, which is printed, until standard input ends
//   node echo.js check PORT [TLS]    call every method there; a line for each check
//
// TLS is a directory with root.pem, {server,client}.crt and {server,client}.key.
"use strict";
const fs = require("fs");
const path = require("path");
const grpc = require("@grpc/grpc-js");

const bytes = (value) => value;
const kinds = { Unary: [0, 0], Down: [0, 1], Up: [1, 0], Chat: [1, 1], Fail: [0, 0], Slow: [0, 0], Cancelled: [0, 0] };
const service = {};
for (const [name, [up, down]] of Object.entries(kinds)) {
  service[name] = {
    path: `/interop.Echo/${name}`, requestStream: !!up, responseStream: !!down,
    requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes,
  };
}
const MESSAGE_MAX = 64 << 20;
const options = { "grpc.max_receive_message_length": MESSAGE_MAX, "grpc.max_send_message_length": MESSAGE_MAX };
const DETAILS = "nö 100% ✓";
const WHY = Buffer.from([1, 2, 255]);

// --- server ----------------------------------------------------------------------------------------------------------

let cancelled = 0;

function answered(call) {
  const metadata = new grpc.Metadata();
  for (const name of ["x-text", "x-data-bin"]) for (const value of call.metadata.get(name)) metadata.add(name, value);
  call.sendMetadata(metadata);
  const trailers = new grpc.Metadata();
  trailers.set("x-end", "over");
  return trailers;
}

const methods = {
  Unary: (call, done) => { const trailers = answered(call); done(null, call.request, trailers); },
  async Down(call) {
    const [count, size] = call.request.toString().split(" ").map(Number);
    const message = Buffer.alloc(size, "x");
    for (let i = 0; i < count; i++) if (!call.write(message)) await new Promise((more) => call.once("drain", more));
    call.end();
  },
  Up(call, done) {
    let count = 0, total = 0;
    call.on("data", (message) => { count++; total += message.length; });
    call.on("end", () => done(null, Buffer.from(`${count} ${total}`)));
  },
  Chat(call) {
    call.on("data", (message) => { if (!call.write(message)) { call.pause(); call.once("drain", () => call.resume()); } });
    call.on("end", () => call.end());
    call.on("error", () => {});
  },
  Fail(call, done) {
    const trailers = new grpc.Metadata();
    trailers.set("why-bin", WHY);
    done({ code: grpc.status.NOT_FOUND, details: DETAILS, metadata: trailers });
  },
  Slow(call) { call.on("cancelled", () => cancelled++); },
  Cancelled: (call, done) => done(null, Buffer.from(`${cancelled}`)),
};

function serve(tls) {
  const file = (name) => fs.readFileSync(path.join(tls, name));
  const credentials = tls
    ? grpc.ServerCredentials.createSsl(file("root.pem"), [{ private_key: file("server.key"), cert_chain: file("server.crt") }], true)
    : grpc.ServerCredentials.createInsecure();
  const server = new grpc.Server(options);
  server.addService(service, methods);
  server.bindAsync("127.0.0.1:0", credentials, (error, port) => {
    if (error) throw error;
    console.log(port);
  });
  process.stdin.on("end", () => process.exit(0)).resume();
}

// --- client ----------------------------------------------------------------------------------------------------------

function same(found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}

const ask = (call) => new Promise((done, fail) => call((error, reply) => (error ? fail(error) : done(reply))));

async function refused(code, call) {
  try { await ask(call); } catch (error) { same(error.code, code); return error; }
  throw new Error("was not refused");
}

function collect(call) {
  return new Promise((done, fail) => {
    const found = [];
    call.on("data", (message) => found.push(message));
    call.on("error", fail);
    call.on("end", () => done(found));
  });
}

const checks = {
  async unary(client) {
    const metadata = new grpc.Metadata();
    metadata.add("x-text", "one"); metadata.add("x-text", "two"); metadata.add("x-data-bin", WHY);
    let initial, trailing;
    const reply = await ask((done) => {
      const call = client.Unary(Buffer.from("hello"), metadata, done);
      call.on("metadata", (found) => { initial = found; });
      call.on("status", (found) => { trailing = found.metadata; });
    });
    same(reply.toString(), "hello");
    same(initial.get("x-text").join(", "), "one, two"); // Node.js joins them
    same(initial.get("x-data-bin").map((value) => value.toString("hex")), [WHY.toString("hex")]);
    await new Promise((done) => setImmediate(done));
    same(trailing.get("x-end"), ["over"]);
  },
  empty: async (client) => same((await ask((done) => client.Unary(Buffer.alloc(0), done))).length, 0),
  down: async (client) => same((await collect(client.Down(Buffer.from("2000 100")))).length, 2000),
  async up(client) {
    const reply = await ask((done) => {
      const call = client.Up(done);
      for (let i = 0; i < 2000; i++) call.write(Buffer.alloc(100));
      call.end();
    });
    same(reply.toString(), "2000 200000");
  },
  async chat(client) {
    const call = client.Chat();
    for (let i = 0; i < 200; i++) {
      const answer = new Promise((done, fail) => { call.once("data", done); call.once("error", fail); });
      call.write(Buffer.from(`${i}`));
      same((await answer).toString(), `${i}`);
      call.removeAllListeners("error");
    }
    const over = collect(call);
    call.end();
    same((await over).length, 0);
  },
  async fail(client) {
    const error = await refused(grpc.status.NOT_FOUND, (done) => client.Fail(Buffer.from("x"), done));
    same(error.details, DETAILS);
    same(error.metadata.get("why-bin").map((value) => value.toString("hex")), [WHY.toString("hex")]);
  },
  unknown: (client) => refused(grpc.status.UNIMPLEMENTED, (done) => client.makeUnaryRequest("/interop.Echo/Nothing", bytes, bytes, Buffer.from("x"), done)),
  deadline: (client) => refused(grpc.status.DEADLINE_EXCEEDED, (done) => client.Slow(Buffer.from("x"), { deadline: Date.now() + 200 }, done)),
  async cancel(client) {
    const count = async () => Number((await ask((done) => client.Cancelled(Buffer.alloc(0), done))).toString());
    const before = await count();
    await refused(grpc.status.CANCELLED, (done) => { const call = client.Slow(Buffer.from("x"), done); setTimeout(() => call.cancel(), 50); });
    for (let i = 0; i < 500 && (await count()) === before; i++) await new Promise((done) => setTimeout(done, 10));
    if ((await count()) === before) throw new Error("the server did not hear of it");
  },
  async large(client) {
    const message = Buffer.alloc(32 << 20, "y");
    same((await ask((done) => client.Unary(message, done))).equals(message), true);
    same((await collect(client.Down(Buffer.from("3 5000000")))).map((each) => each.length), [5000000, 5000000, 5000000]);
  },
  too_large: (client) => refused(grpc.status.RESOURCE_EXHAUSTED, (done) => client.Unary(Buffer.alloc((32 << 20) + 1), done)),
  async many(client) {
    const calls = Array.from({ length: 1000 }, () => client.Chat());
    const all = calls.map((call, i) => { const found = collect(call); call.write(Buffer.from(`${i}`)); return found; });
    calls.forEach((call) => call.end());
    same((await Promise.all(all)).map((found) => found.length), calls.map(() => 1));
  },
  async gzip(client, another) {
    const compressing = another({ "grpc.default_compression_algorithm": 2 });
    await refused(grpc.status.UNIMPLEMENTED, (done) => compressing.Unary(Buffer.alloc(10000), done));
    compressing.close();
  },
};

async function check(port, tls) {
  const file = (name) => fs.readFileSync(path.join(tls, name));
  const credentials = tls
    ? grpc.credentials.createSsl(file("root.pem"), file("client.key"), file("client.crt"))
    : grpc.credentials.createInsecure();
  const Client = grpc.makeGenericClientConstructor(service, "Echo");
  const another = (more) => new Client(`127.0.0.1:${port}`, credentials, { ...options, ...more });
  const client = another({});
  for (const [name, run] of Object.entries(checks)) {
    try { await run(client, another); console.log(`ok ${name}`); } catch (error) { console.log(`FAILED ${name}: ${error.message}`); }
  }
  client.close();
}

const [what, ...rest] = process.argv.slice(2);
if (what === "serve") serve(rest[0]);
else check(rest[0], rest[1]).then(() => process.exit(0));
