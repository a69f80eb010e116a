// A client and a server of ../echo.py's service on Java's gRPC.
//
//   java Echo serve [TLS]         serve on a free port, which is printed, until standard input ends
//   java Echo check PORT [TLS]    call every method there; a line for each check
//
// TLS is a directory with root.pem, {server,client}.crt and {server,client}.key.

import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.*;
import java.io.*;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Echo {
    static final int MESSAGE_MAX = 64 << 20;
    static final String DETAILS = "nö 100% ✓";
    static final byte[] WHY = {1, 2, -1};
    static final Metadata.Key<String> TEXT = Metadata.Key.of("x-text", Metadata.ASCII_STRING_MARSHALLER);
    static final Metadata.Key<byte[]> DATA = Metadata.Key.of("x-data-bin", Metadata.BINARY_BYTE_MARSHALLER);
    static final Metadata.Key<String> END = Metadata.Key.of("x-end", Metadata.ASCII_STRING_MARSHALLER);
    static final Metadata.Key<byte[]> REASON = Metadata.Key.of("why-bin", Metadata.BINARY_BYTE_MARSHALLER);

    static final MethodDescriptor.Marshaller<byte[]> RAW = new MethodDescriptor.Marshaller<byte[]>() {
        public InputStream stream(byte[] value) { return new ByteArrayInputStream(value); }
        public byte[] parse(InputStream stream) {
            try { return stream.readAllBytes(); } catch (IOException error) { throw new UncheckedIOException(error); }
        }
    };

    static MethodDescriptor<byte[], byte[]> method(MethodDescriptor.MethodType type, String name) {
        return MethodDescriptor.newBuilder(RAW, RAW).setType(type).setFullMethodName("interop.Echo/" + name).build();
    }

    static final MethodDescriptor<byte[], byte[]> UNARY = method(MethodDescriptor.MethodType.UNARY, "Unary");
    static final MethodDescriptor<byte[], byte[]> DOWN = method(MethodDescriptor.MethodType.SERVER_STREAMING, "Down");
    static final MethodDescriptor<byte[], byte[]> UP = method(MethodDescriptor.MethodType.CLIENT_STREAMING, "Up");
    static final MethodDescriptor<byte[], byte[]> CHAT = method(MethodDescriptor.MethodType.BIDI_STREAMING, "Chat");
    static final MethodDescriptor<byte[], byte[]> FAIL = method(MethodDescriptor.MethodType.UNARY, "Fail");
    static final MethodDescriptor<byte[], byte[]> SLOW = method(MethodDescriptor.MethodType.UNARY, "Slow");
    static final MethodDescriptor<byte[], byte[]> CANCELLED = method(MethodDescriptor.MethodType.UNARY, "Cancelled");
    static final MethodDescriptor<byte[], byte[]> NOTHING = method(MethodDescriptor.MethodType.UNARY, "Nothing");

    // --- server ------------------------------------------------------------------------------------------------------

    static final AtomicInteger cancelled = new AtomicInteger();

    /** Sends the caller's metadata back before the reply, and one more after it. */
    static final ServerInterceptor MIRROR = new ServerInterceptor() {
        public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata asked, ServerCallHandler<Q, A> next) {
            return next.startCall(new ForwardingServerCall.SimpleForwardingServerCall<Q, A>(call) {
                public void sendHeaders(Metadata headers) {
                    for (String each : all(asked, TEXT)) headers.put(TEXT, each);
                    for (byte[] each : all(asked, DATA)) headers.put(DATA, each);
                    super.sendHeaders(headers);
                }
                public void close(Status status, Metadata trailers) {
                    trailers.put(END, "over");
                    super.close(status, trailers);
                }
            }, asked);
        }
    };

    static <T> List<T> all(Metadata metadata, Metadata.Key<T> key) {
        List<T> found = new ArrayList<>();
        Iterable<T> values = metadata.getAll(key);
        if (values != null) values.forEach(found::add);
        return found;
    }

    static void reply(StreamObserver<byte[]> to, byte[] message) {
        to.onNext(message);
        to.onCompleted();
    }

    static void down(byte[] request, StreamObserver<byte[]> to) {
        String[] words = new String(request).split(" ");
        int count = Integer.parseInt(words[0]);
        byte[] message = new byte[Integer.parseInt(words[1])];
        ServerCallStreamObserver<byte[]> out = (ServerCallStreamObserver<byte[]>) to;
        int[] sent = {0};
        out.setOnReadyHandler(() -> {
            while (out.isReady() && sent[0] < count) {
                out.onNext(message);
                if (++sent[0] == count) out.onCompleted();
            }
        });
    }

    static StreamObserver<byte[]> up(StreamObserver<byte[]> to) {
        int[] found = {0, 0};
        return observer(message -> { found[0]++; found[1] += message.length; }, error -> { },
            () -> reply(to, (found[0] + " " + found[1]).getBytes()));
    }

    static StreamObserver<byte[]> chat(StreamObserver<byte[]> to) {
        return observer(to::onNext, error -> { }, to::onCompleted);
    }

    static void slow(StreamObserver<byte[]> to) {
        ((ServerCallStreamObserver<byte[]>) to).setOnCancelHandler(cancelled::incrementAndGet);
    }

    static void fail(StreamObserver<byte[]> to) {
        Metadata trailers = new Metadata();
        trailers.put(REASON, WHY);
        to.onError(Status.NOT_FOUND.withDescription(DETAILS).asRuntimeException(trailers));
    }

    static void serve(String tls) throws Exception {
        NettyServerBuilder builder = tls == null
            ? NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            : NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0), TlsServerCredentials.newBuilder()
                .keyManager(new File(tls, "server.crt"), new File(tls, "server.key"))
                .trustManager(new File(tls, "root.pem")).clientAuth(TlsServerCredentials.ClientAuth.REQUIRE).build());
        ServerServiceDefinition service = ServerServiceDefinition.builder("interop.Echo")
            .addMethod(UNARY, ServerCalls.asyncUnaryCall((byte[] request, StreamObserver<byte[]> to) -> reply(to, request)))
            .addMethod(DOWN, ServerCalls.asyncServerStreamingCall(Echo::down))
            .addMethod(UP, ServerCalls.asyncClientStreamingCall(Echo::up))
            .addMethod(CHAT, ServerCalls.asyncBidiStreamingCall(Echo::chat))
            .addMethod(FAIL, ServerCalls.asyncUnaryCall((byte[] request, StreamObserver<byte[]> to) -> fail(to)))
            .addMethod(SLOW, ServerCalls.asyncUnaryCall((byte[] request, StreamObserver<byte[]> to) -> slow(to)))
            .addMethod(CANCELLED, ServerCalls.asyncUnaryCall(
                (byte[] request, StreamObserver<byte[]> to) -> reply(to, ("" + cancelled).getBytes())))
            .build();
        Server server = builder.addService(ServerInterceptors.intercept(service, MIRROR))
            .maxInboundMessageSize(MESSAGE_MAX).build().start();
        System.out.println(server.getPort());
        while (System.in.read() >= 0) { }
        server.shutdownNow();
        System.exit(0);
    }

    // --- client ------------------------------------------------------------------------------------------------------

    interface Action<T> { void run(T value) throws Exception; }

    static StreamObserver<byte[]> observer(Action<byte[]> onNext, Action<Throwable> onError, Runnable onEnd) {
        return new StreamObserver<byte[]>() {
            public void onNext(byte[] message) { run(onNext, message); }
            public void onError(Throwable error) { run(onError, error); }
            public void onCompleted() { onEnd.run(); }
        };
    }

    static <T> void run(Action<T> action, T value) {
        try { action.run(value); } catch (RuntimeException error) { throw error; } catch (Exception error) { throw new RuntimeException(error); }
    }

    /** What a call gave, in order. */
    static class Collected {
        final CompletableFuture<List<byte[]>> all = new CompletableFuture<>();
        final BlockingQueue<byte[]> coming = new LinkedBlockingQueue<>();
        final List<byte[]> found = new ArrayList<>();
        final StreamObserver<byte[]> observer = observer(message -> { found.add(message); coming.add(message); },
            error -> all.completeExceptionally(error), () -> all.complete(found));
        List<byte[]> get() throws Exception { return all.get(60, TimeUnit.SECONDS); }
    }

    static ManagedChannel channel;

    static ClientCall<byte[], byte[]> call(MethodDescriptor<byte[], byte[]> method, CallOptions options) {
        return channel.newCall(method, options);
    }

    static byte[] ask(MethodDescriptor<byte[], byte[]> method, byte[] request) {
        return ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, request);
    }

    static void same(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new IllegalStateException(found + " is not " + wanted);
    }

    static StatusRuntimeException refused(Status.Code code, Callable<?> run) throws Exception {
        try {
            run.call();
        } catch (StatusRuntimeException error) {
            same(error.getStatus().getCode(), code);
            return error;
        }
        throw new IllegalStateException("was not refused");
    }

    static void unary() throws Exception {
        Metadata asked = new Metadata(), trailers = new Metadata();
        asked.put(TEXT, "one"); asked.put(TEXT, "two"); asked.put(DATA, WHY);
        java.util.concurrent.atomic.AtomicReference<Metadata> initial = new java.util.concurrent.atomic.AtomicReference<>();
        java.util.concurrent.atomic.AtomicReference<Metadata> trailing = new java.util.concurrent.atomic.AtomicReference<>();
        Channel mirrored = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(asked),
            MetadataUtils.newCaptureMetadataInterceptor(initial, trailing));
        same(new String(ClientCalls.blockingUnaryCall(mirrored, UNARY, CallOptions.DEFAULT, "hello".getBytes())), "hello");
        same(all(initial.get(), TEXT), List.of("one", "two"));
        same(Arrays.equals(initial.get().get(DATA), WHY), true);
        same(all(trailing.get(), END), List.of("over"));
    }

    static void down() throws Exception {
        Collected found = new Collected();
        ClientCalls.asyncServerStreamingCall(call(DOWN, CallOptions.DEFAULT), "2000 100".getBytes(), found.observer);
        same(found.get().size(), 2000);
    }

    static void up() throws Exception {
        Collected found = new Collected();
        StreamObserver<byte[]> out = ClientCalls.asyncClientStreamingCall(call(UP, CallOptions.DEFAULT), found.observer);
        for (int i = 0; i < 2000; i++) out.onNext(new byte[100]);
        out.onCompleted();
        same(new String(found.get().get(0)), "2000 200000");
    }

    static void chatting() throws Exception {
        Collected found = new Collected();
        StreamObserver<byte[]> out = ClientCalls.asyncBidiStreamingCall(call(CHAT, CallOptions.DEFAULT), found.observer);
        for (int i = 0; i < 200; i++) {
            out.onNext(("" + i).getBytes());
            same(new String(found.coming.poll(60, TimeUnit.SECONDS)), "" + i);
        }
        out.onCompleted();
        same(found.get().size(), 200);
    }

    static void failing() throws Exception {
        StatusRuntimeException error = refused(Status.Code.NOT_FOUND, () -> ask(FAIL, new byte[1]));
        same(error.getStatus().getDescription(), DETAILS);
        same(Arrays.equals(error.getTrailers().get(REASON), WHY), true);
    }

    static void deadline() throws Exception {
        CallOptions soon = CallOptions.DEFAULT.withDeadlineAfter(200, TimeUnit.MILLISECONDS);
        refused(Status.Code.DEADLINE_EXCEEDED, () -> ClientCalls.blockingUnaryCall(channel, SLOW, soon, new byte[1]));
    }

    static void cancel() throws Exception {
        String before = new String(ask(CANCELLED, new byte[0]));
        Future<byte[]> slow = ClientCalls.futureUnaryCall(call(SLOW, CallOptions.DEFAULT), new byte[1]);
        Thread.sleep(50);
        slow.cancel(true);
        for (int i = 0; i < 500; i++) {
            if (!new String(ask(CANCELLED, new byte[0])).equals(before)) return;
            Thread.sleep(10);
        }
        throw new IllegalStateException("the server did not hear of it");
    }

    static void large() {
        byte[] message = new byte[32 << 20];
        new Random(1).nextBytes(message);
        same(Arrays.equals(ask(UNARY, message), message), true);
    }

    static void many() throws Exception {
        List<Collected> all = new ArrayList<>();
        List<StreamObserver<byte[]>> outs = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            all.add(new Collected());
            outs.add(ClientCalls.asyncBidiStreamingCall(call(CHAT, CallOptions.DEFAULT), all.get(i).observer));
            outs.get(i).onNext(("" + i).getBytes());
        }
        for (StreamObserver<byte[]> out : outs) out.onCompleted();
        for (int i = 0; i < 1000; i++) same(new String(all.get(i).get().get(0)), "" + i);
    }

    static void gzip() throws Exception {
        CallOptions compressing = CallOptions.DEFAULT.withCompression("gzip");
        refused(Status.Code.UNIMPLEMENTED, () -> ClientCalls.blockingUnaryCall(channel, UNARY, compressing, new byte[10000]));
    }

    static void check(String port, String tls) throws Exception {
        NettyChannelBuilder builder = tls == null
            ? NettyChannelBuilder.forAddress("127.0.0.1", Integer.parseInt(port)).usePlaintext()
            : NettyChannelBuilder.forAddress("127.0.0.1", Integer.parseInt(port), TlsChannelCredentials.newBuilder()
                .keyManager(new File(tls, "client.crt"), new File(tls, "client.key")).trustManager(new File(tls, "root.pem")).build());
        channel = builder.maxInboundMessageSize(MESSAGE_MAX).build();
        Map<String, Callable<?>> checks = new LinkedHashMap<>();
        checks.put("unary", () -> { unary(); return 0; });
        checks.put("empty", () -> { same(ask(UNARY, new byte[0]).length, 0); return 0; });
        checks.put("down", () -> { down(); return 0; });
        checks.put("up", () -> { up(); return 0; });
        checks.put("chat", () -> { chatting(); return 0; });
        checks.put("fail", () -> { failing(); return 0; });
        checks.put("unknown", () -> refused(Status.Code.UNIMPLEMENTED, () -> ask(NOTHING, new byte[1])));
        checks.put("deadline", () -> { deadline(); return 0; });
        checks.put("cancel", () -> { cancel(); return 0; });
        checks.put("large", () -> { large(); return 0; });
        checks.put("too_large", () -> refused(Status.Code.RESOURCE_EXHAUSTED, () -> ask(UNARY, new byte[(32 << 20) + 1])));
        checks.put("many", () -> { many(); return 0; });
        checks.put("gzip", () -> { gzip(); return 0; });
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (Map.Entry<String, Callable<?>> each : checks.entrySet()) {
            try {
                each.getValue().call();
                out.println("ok " + each.getKey());
            } catch (Exception error) {
                out.println("FAILED " + each.getKey() + ": " + error);
            }
        }
        channel.shutdownNow();
        System.exit(0);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("serve")) serve(arguments.length > 1 ? arguments[1] : null);
        else check(arguments[1], arguments.length > 2 ? arguments[2] : null);
    }
}
