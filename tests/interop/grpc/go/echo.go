// A client and a server of ../echo.py's service on Go's gRPC.
//
//	echo serve [TLS]         serve on a free port, which is printed, until standard input ends
//	echo check PORT [TLS]    call every method there; a line for each check
//
// TLS is a directory with root.pem, {server,client}.crt and {server,client}.key.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	messageMax = 64 << 20
	details    = "nö 100% ✓"
)

var why = string([]byte{1, 2, 255})

// raw passes bytes on as they are.
type raw struct{}

func (raw) Name() string                       { return "raw" }
func (raw) Marshal(value any) ([]byte, error)  { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func text(value string) *[]byte                { data := []byte(value); return &data }

// --- server ----------------------------------------------------------------------------------------------------------

var cancelled atomic.Int64

func one(name string, run func(context.Context, []byte) (*[]byte, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := read(&request); err != nil {
			return nil, err
		}
		return run(ctx, request)
	}}
}

func unary(ctx context.Context, request []byte) (*[]byte, error) {
	asked, _ := metadata.FromIncomingContext(ctx)
	initial := metadata.MD{}
	for _, name := range []string{"x-text", "x-data-bin"} {
		initial.Append(name, asked.Get(name)...)
	}
	grpc.SendHeader(ctx, initial)
	grpc.SetTrailer(ctx, metadata.Pairs("x-end", "over"))
	return &request, nil
}

func fail(ctx context.Context, _ []byte) (*[]byte, error) {
	grpc.SetTrailer(ctx, metadata.Pairs("why-bin", why))
	return nil, status.Error(codes.NotFound, details)
}

func slow(ctx context.Context, _ []byte) (*[]byte, error) {
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.Canceled) {
		cancelled.Add(1)
	}
	return nil, ctx.Err()
}

func count(context.Context, []byte) (*[]byte, error) { return text(fmt.Sprint(cancelled.Load())), nil }

func down(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	var number, size int
	fmt.Sscan(string(request), &number, &size)
	message := bytes.Repeat([]byte("x"), size)
	for range number {
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
	return nil
}

func up(_ any, stream grpc.ServerStream) error {
	number, total := 0, 0
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return stream.SendMsg(text(fmt.Sprint(number, " ", total)))
		}
		if err != nil {
			return err
		}
		number++
		total += len(message)
	}
}

func chat(_ any, stream grpc.ServerStream) error {
	for {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

var service = grpc.ServiceDesc{
	ServiceName: "interop.Echo",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{one("Unary", unary), one("Fail", fail), one("Slow", slow), one("Cancelled", count)},
	Streams: []grpc.StreamDesc{
		{StreamName: "Down", Handler: down, ServerStreams: true},
		{StreamName: "Up", Handler: up, ClientStreams: true},
		{StreamName: "Chat", Handler: chat, ServerStreams: true, ClientStreams: true},
	},
}

func secured(directory, name string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(filepath.Join(directory, name+".crt"), filepath.Join(directory, name+".key"))
	must(err)
	root, err := os.ReadFile(filepath.Join(directory, "root.pem"))
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func serve(directory string) {
	options := []grpc.ServerOption{grpc.ForceServerCodec(raw{}), grpc.MaxRecvMsgSize(messageMax), grpc.MaxSendMsgSize(messageMax)}
	if directory != "" {
		options = append(options, grpc.Creds(credentials.NewTLS(secured(directory, "server"))))
	}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	server := grpc.NewServer(options...)
	server.RegisterService(&service, nil)
	go server.Serve(listening)
	fmt.Println(listening.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}

// --- client ----------------------------------------------------------------------------------------------------------

type client struct{ *grpc.ClientConn }

func (c client) ask(ctx context.Context, method string, request []byte, options ...grpc.CallOption) ([]byte, error) {
	var reply []byte
	err := c.Invoke(ctx, "/interop.Echo/"+method, &request, &reply, options...)
	return reply, err
}

func (c client) open(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/interop.Echo/"+method)
}

func same(found, wanted any) error {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		return fmt.Errorf("%.200v is not %.200v", found, wanted)
	}
	return nil
}

func refused(err error, code codes.Code) error { return same(status.Code(err), code) }

func collect(stream grpc.ClientStream) (int, int, error) {
	for number, total := 0, 0; ; number++ {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			return number, total, nil
		}
		if err != nil {
			return number, total, err
		}
		total += len(message)
	}
}

type check struct {
	name string
	run  func(context.Context, client) error
}

var checks = []check{
	{"unary", func(ctx context.Context, c client) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-text", "one", "x-text", "two", "x-data-bin", why)
		var initial, trailing metadata.MD
		reply, err := c.ask(ctx, "Unary", []byte("hello"), grpc.Header(&initial), grpc.Trailer(&trailing))
		return errors.Join(err, same(string(reply), "hello"), same(initial.Get("x-text"), []string{"one", "two"}),
			same(initial.Get("x-data-bin"), []string{why}), same(trailing.Get("x-end"), []string{"over"}))
	}},
	{"empty", func(ctx context.Context, c client) error {
		reply, err := c.ask(ctx, "Unary", nil)
		return errors.Join(err, same(len(reply), 0))
	}},
	{"down", func(ctx context.Context, c client) error {
		stream, err := c.open(ctx, "Down")
		if err != nil {
			return err
		}
		err = errors.Join(stream.SendMsg(text("2000 100")), stream.CloseSend())
		number, total, failed := collect(stream)
		return errors.Join(err, failed, same(number, 2000), same(total, 200000))
	}},
	{"up", func(ctx context.Context, c client) error {
		stream, err := c.open(ctx, "Up")
		if err != nil {
			return err
		}
		message := make([]byte, 100)
		for range 2000 {
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
		var reply []byte
		return errors.Join(stream.CloseSend(), stream.RecvMsg(&reply), same(string(reply), "2000 200000"))
	}},
	{"chat", func(ctx context.Context, c client) error {
		stream, err := c.open(ctx, "Chat")
		if err != nil {
			return err
		}
		for i := range 200 {
			var reply []byte
			if err := errors.Join(stream.SendMsg(text(fmt.Sprint(i))), stream.RecvMsg(&reply), same(string(reply), i)); err != nil {
				return err
			}
		}
		err = stream.CloseSend()
		number, _, failed := collect(stream)
		return errors.Join(err, failed, same(number, 0))
	}},
	{"fail", func(ctx context.Context, c client) error {
		var trailing metadata.MD
		_, err := c.ask(ctx, "Fail", []byte("x"), grpc.Trailer(&trailing))
		return errors.Join(refused(err, codes.NotFound), same(status.Convert(err).Message(), details), same(trailing.Get("why-bin"), []string{why}))
	}},
	{"unknown", func(ctx context.Context, c client) error {
		_, err := c.ask(ctx, "Nothing", []byte("x"))
		return refused(err, codes.Unimplemented)
	}},
	{"deadline", func(ctx context.Context, c client) error {
		ctx, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		defer stop()
		_, err := c.ask(ctx, "Slow", []byte("x"))
		return refused(err, codes.DeadlineExceeded)
	}},
	{"cancel", func(ctx context.Context, c client) error {
		before, err := c.ask(ctx, "Cancelled", nil)
		if err != nil {
			return err
		}
		short, stop := context.WithCancel(ctx)
		time.AfterFunc(50*time.Millisecond, stop)
		if _, err := c.ask(short, "Slow", []byte("x")); refused(err, codes.Canceled) != nil {
			return err
		}
		for range 500 {
			after, err := c.ask(ctx, "Cancelled", nil)
			if err != nil || !bytes.Equal(before, after) {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		return errors.New("the server did not hear of it")
	}},
	{"large", func(ctx context.Context, c client) error {
		message := bytes.Repeat([]byte("y"), 32<<20)
		reply, err := c.ask(ctx, "Unary", message)
		return errors.Join(err, same(bytes.Equal(reply, message), true))
	}},
	{"too_large", func(ctx context.Context, c client) error {
		_, err := c.ask(ctx, "Unary", make([]byte, 32<<20+1))
		return refused(err, codes.ResourceExhausted)
	}},
	{"many", func(ctx context.Context, c client) error {
		failures := make(chan error)
		for range 1000 {
			go func() {
				stream, err := c.open(ctx, "Chat")
				if err != nil {
					failures <- err
					return
				}
				err = errors.Join(stream.SendMsg(text("hello")), stream.CloseSend())
				number, _, failed := collect(stream)
				failures <- errors.Join(err, failed, same(number, 1))
			}()
		}
		var all error
		for range 1000 {
			all = errors.Join(all, <-failures)
		}
		return all
	}},
	{"gzip", func(ctx context.Context, c client) error {
		_, err := c.ask(ctx, "Unary", make([]byte, 10000), grpc.UseCompressor("gzip"))
		return refused(err, codes.Unimplemented)
	}},
}

func checkAll(port, directory string) {
	secure := insecure.NewCredentials()
	if directory != "" {
		secure = credentials.NewTLS(secured(directory, "client"))
	}
	connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(secure), grpc.WithDefaultCallOptions(
		grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(messageMax), grpc.MaxCallSendMsgSize(messageMax)))
	must(err)
	defer connection.Close()
	for _, each := range checks {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		if err := each.run(ctx, client{connection}); err != nil {
			fmt.Printf("FAILED %s: %q\n", each.name, err)
		} else {
			fmt.Println("ok", each.name)
		}
		stop()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	arguments := append(os.Args[1:], "", "", "")
	if arguments[0] == "serve" {
		serve(arguments[1])
	} else {
		checkAll(arguments[1], arguments[2])
	}
}
