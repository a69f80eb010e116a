// A client of a Weft node in Go, from mesh.proto alone: no Arrow, no code of Weft's.
//
//	publish   ADDRESS ROOT.pem TOPIC PAYLOAD...          a receipt for each
//	subscribe ADDRESS ROOT.pem PATTERN COUNT [GROUP]     so many events, one JSON object a line
//
// The API key is in the environment: WEFT_TOKEN. `weft context show` says where the root certificate is. WEFT_IDENTITY
// names a file with a key and its certificates, for a node that wants to see one (mTLS). How the package mesh is made from
// mesh.proto is said in the README beside this file.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"example.org/weft/mesh"
)

const creditBytes = 1 << 20 // how much may be under way to us

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, status.Convert(err).Message())
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 5 {
		return fmt.Errorf("publish ADDRESS ROOT.pem TOPIC PAYLOAD..., or subscribe ADDRESS ROOT.pem PATTERN COUNT [GROUP]")
	}
	command, address, root, topic, rest := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4:]
	config, err := tlsConfig(root, os.Getenv("WEFT_IDENTITY"))
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+os.Getenv("WEFT_TOKEN"))
	client := mesh.NewMeshClient(connection)
	if command == "publish" {
		return publish(ctx, client, topic, rest)
	}
	count, err := strconv.Atoi(rest[0])
	if err != nil {
		return err
	}
	return subscribe(ctx, client, topic, count, append(rest, "")[1])
}

func tlsConfig(root, identity string) (*tls.Config, error) {
	roots, err := os.ReadFile(root)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("%s holds no certificate", root)
	}
	if identity != "" {
		pair, err := tls.LoadX509KeyPair(identity, identity)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// One stream for all that is published; every message is answered by a receipt or a refusal with its number.
func publish(ctx context.Context, client mesh.MeshClient, topic string, payloads []string) error {
	stream, err := client.Publish(ctx)
	if err != nil {
		return err
	}
	stream.Send(&mesh.PublishRequest{Msg: &mesh.PublishRequest_Open{Open: &mesh.PublishOpen{}}})
	for number, payload := range payloads {
		event := &mesh.PlainEvent{Payload: []byte(payload), Key: []byte("from-go"), Headers: map[string]string{"language": "Go"}}
		events := &mesh.PublishEvents{Request: uint64(number + 1), Topic: topic, Events: []*mesh.PlainEvent{event}}
		stream.Send(&mesh.PublishRequest{Msg: &mesh.PublishRequest_Events{Events: events}})
	}
	stream.CloseSend()
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, each := range reply.GetReceipts().GetReceipts() {
			show(map[string]any{"request": each.Request, "origin": each.Stream.Origin, "offset": each.FirstOffset})
		}
		if refused := reply.GetRefused(); refused != nil {
			return fmt.Errorf("request %d was refused: %s", refused.Request, refused.Error.Message)
		}
	}
}

// Events come as far as our credit goes. What was taken is given back; a group also hears how far we are.
func subscribe(ctx context.Context, client mesh.MeshClient, pattern string, count int, group string) error {
	stream, err := client.Subscribe(ctx)
	if err != nil {
		return err
	}
	earliest := &mesh.Start{From: &mesh.Start_Edge_{Edge: mesh.Start_EDGE_EARLIEST}}
	open := &mesh.SubscribeOpen{Pattern: pattern, Group: group, Member: "go", Start: earliest, CreditBytes: creditBytes, Plain: true}
	stream.Send(&mesh.SubscribeRequest{Msg: &mesh.SubscribeRequest_Open{Open: open}})
	handled := &mesh.Handled{}
	for taken := 0; taken < count; {
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		if failure := reply.GetError(); failure != nil {
			return fmt.Errorf("%s", failure.Message)
		}
		if assignment := reply.GetAssignment(); assignment != nil { // our part of the group's streams
			handled.Generation = assignment.Generation
			stream.Send(&mesh.SubscribeRequest{Msg: &mesh.SubscribeRequest_Handled{Handled: handled}})
		}
		piece := reply.GetDelivery().GetEvents()
		for _, event := range piece.GetEvents() {
			if taken++; taken > count {
				break
			}
			show(map[string]any{"topic": piece.Stream.Topic, "offset": event.Offset, "key": string(event.Key),
				"headers": event.Headers, "payload": string(event.Payload)})
			next := &mesh.StreamPosition{Stream: piece.Stream, NextOffset: event.Offset + 1}
			handled.Positions = []*mesh.StreamPosition{next}
		}
		if group != "" && piece != nil {
			stream.Send(&mesh.SubscribeRequest{Msg: &mesh.SubscribeRequest_Handled{Handled: handled}})
		}
		if piece.GetCreditBytes() > 0 {
			credit := &mesh.Credit{Bytes: piece.CreditBytes}
			stream.Send(&mesh.SubscribeRequest{Msg: &mesh.SubscribeRequest_Credit{Credit: credit}})
		}
	}
	return stream.CloseSend()
}

func show(document map[string]any) {
	line, _ := json.Marshal(document)
	fmt.Println(string(line))
}
