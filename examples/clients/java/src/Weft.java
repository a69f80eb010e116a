// A client of a Weft node in Java, from mesh.proto alone: no Arrow, no code of Weft's.
//
//   mvn -q package
//   java -cp 'target/classes:target/lib/*' Weft publish   ADDRESS ROOT.pem TOPIC PAYLOAD...          a receipt for each
//   java -cp 'target/classes:target/lib/*' Weft subscribe ADDRESS ROOT.pem PATTERN COUNT [GROUP]     so many events,
//                                                                                              one JSON object a line
// The API key is in the environment: WEFT_TOKEN. `weft context show` says where the root certificate is. WEFT_IDENTITY names
// a file with a key and its certificates, for a node that wants to see one (mTLS).

import com.google.protobuf.ByteString;
import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.BiConsumer;
import weft.mesh.v1.MeshGrpc;
import weft.mesh.v1.MeshOuterClass.*;

public class Weft {
    static final int CREDIT_BYTES = 1 << 20; // how much may be under way to us

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 5) throw new IllegalArgumentException(
            "publish ADDRESS ROOT.pem TOPIC PAYLOAD..., or subscribe ADDRESS ROOT.pem PATTERN COUNT [GROUP]");
        List<String> rest = Arrays.asList(arguments).subList(4, arguments.length);
        ManagedChannel channel = connect(arguments[1], arguments[2]);
        int status = 0;
        try {
            MeshGrpc.MeshStub mesh = MeshGrpc.newStub(channel).withInterceptors(key(System.getenv("WEFT_TOKEN")));
            if (arguments[0].equals("publish")) publish(mesh, arguments[3], rest);
            else subscribe(mesh, arguments[3], Integer.parseInt(rest.get(0)), rest.size() > 1 ? rest.get(1) : "");
        } catch (ExecutionException error) {
            Throwable why = error.getCause();
            System.err.println(why instanceof StatusRuntimeException ended ? ended.getStatus().getDescription() : why.getMessage());
            status = 1;
        }
        channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
        System.exit(status);
    }

    static ManagedChannel connect(String address, String root) throws Exception {
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder().trustManager(new File(root));
        String identity = System.getenv("WEFT_IDENTITY");
        if (identity != null && !identity.isEmpty()) tls.keyManager(new File(identity), new File(identity));
        return NettyChannelBuilder.forTarget(address, tls.build()).build();
    }

    static ClientInterceptor key(String token) {
        Metadata found = new Metadata();
        found.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
        return MetadataUtils.newAttachHeadersInterceptor(found);
    }

    /** One stream for all that is published; every message is answered by a receipt or a refusal with its number. */
    static void publish(MeshGrpc.MeshStub mesh, String topic, List<String> payloads) throws Exception {
        Replies<PublishReply> replies = new Replies<>((reply, done) -> {
            for (Receipt each : reply.getReceipts().getReceiptsList())
                System.out.printf("{\"request\": %d, \"origin\": %s, \"offset\": %d}%n",
                    each.getRequest(), quoted(each.getStream().getOrigin()), each.getFirstOffset());
            if (reply.hasRefused()) done.completeExceptionally(new IllegalStateException(
                "request " + reply.getRefused().getRequest() + " was refused: " + reply.getRefused().getError().getMessage()));
        });
        StreamObserver<PublishRequest> requests = mesh.publish(replies);
        requests.onNext(PublishRequest.newBuilder().setOpen(PublishOpen.getDefaultInstance()).build());
        long request = 0;
        for (String payload : payloads) {
            PlainEvent event = PlainEvent.newBuilder().setPayload(ByteString.copyFromUtf8(payload))
                .setKey(ByteString.copyFromUtf8("from-java")).putHeaders("language", "Java").build();
            requests.onNext(PublishRequest.newBuilder().setEvents(
                PublishEvents.newBuilder().setRequest(++request).setTopic(topic).addEvents(event)).build());
        }
        requests.onCompleted(); // the node answers what it has, then ends the stream
        replies.done.get();
    }

    /** Events come as far as our credit goes. What was taken is given back; a group also hears how far we are. */
    static void subscribe(MeshGrpc.MeshStub mesh, String pattern, int count, String group) throws Exception {
        BlockingQueue<SubscribeReply> coming = new LinkedBlockingQueue<>();
        Replies<SubscribeReply> replies = new Replies<>((reply, done) -> coming.add(reply));
        StreamObserver<SubscribeRequest> requests = mesh.subscribe(replies);
        requests.onNext(SubscribeRequest.newBuilder().setOpen(SubscribeOpen.newBuilder().setPattern(pattern).setGroup(group)
            .setMember("java").setPlain(true).setCreditBytes(CREDIT_BYTES)
            .setStart(Start.newBuilder().setEdge(Start.Edge.EDGE_EARLIEST))).build());
        long generation = 0;
        for (int taken = 0; taken < count; ) {
            SubscribeReply reply = coming.poll(1, TimeUnit.SECONDS);
            if (reply == null) {
                if (replies.done.isDone()) replies.done.get(); // which throws what ended the stream
                continue;
            }
            if (reply.hasError()) throw new ExecutionException(new IllegalStateException(reply.getError().getMessage()));
            if (reply.hasAssignment()) { // our part of the group's streams
                generation = reply.getAssignment().getGeneration();
                requests.onNext(SubscribeRequest.newBuilder().setHandled(Handled.newBuilder().setGeneration(generation)).build());
            }
            if (!reply.getDelivery().hasEvents()) continue;
            StreamEvents piece = reply.getDelivery().getEvents();
            long next = 0;
            for (PlainEvent event : piece.getEventsList()) {
                if (taken++ == count) break;
                show(piece.getStream().getTopic(), event);
                next = event.getOffset() + 1;
            }
            if (!group.isEmpty()) requests.onNext(SubscribeRequest.newBuilder().setHandled(Handled.newBuilder()
                .setGeneration(generation)
                .addPositions(StreamPosition.newBuilder().setStream(piece.getStream()).setNextOffset(next))).build());
            if (piece.getCreditBytes() > 0) requests.onNext(SubscribeRequest.newBuilder()
                .setCredit(Credit.newBuilder().setBytes(piece.getCreditBytes())).build());
        }
        requests.onCompleted();
        if (!group.isEmpty()) replies.done.get(); // our positions have arrived
    }

    static void show(String topic, PlainEvent event) {
        StringJoiner headers = new StringJoiner(", ", "{", "}");
        event.getHeadersMap().forEach((name, value) -> headers.add(quoted(name) + ": " + quoted(value)));
        System.out.printf("{\"topic\": %s, \"offset\": %d, \"key\": %s, \"headers\": %s, \"payload\": %s}%n", quoted(topic),
            event.getOffset(), quoted(event.getKey().toStringUtf8()), headers, quoted(event.getPayload().toStringUtf8()));
    }

    static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char each : text.toCharArray())
            if (each == '"' || each == '\\') found.append('\\').append(each);
            else if (each < ' ') found.append(String.format("\\u%04x", (int) each));
            else found.append(each);
        return found.append('"').toString();
    }

    /** What comes back on a stream; {@code done} when it has ended, or with what ended it. */
    static class Replies<T> implements StreamObserver<T> {
        final CompletableFuture<Void> done = new CompletableFuture<>();
        private final BiConsumer<T, CompletableFuture<Void>> take;

        Replies(BiConsumer<T, CompletableFuture<Void>> take) { this.take = take; }
        public void onNext(T reply) { take.accept(reply, done); }
        public void onError(Throwable error) { done.completeExceptionally(error); }
        public void onCompleted() { done.complete(null); }
    }
}
