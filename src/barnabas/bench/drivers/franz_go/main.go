// Command main is the franz-go driver of `barnabas bench compare`.
//
// Its one argument is the spec, a JSON object; see ../../compare/client_driver.py for roles and results.
//
// The client runs with its defaults, which in the pinned version are:
//
//	acks         all replicas in sync, idempotent, 1 request in flight per broker
//	batching     1,000,012 bytes a batch, 10 ms linger, 50,000 records buffered
//	compression  snappy
//	fetch        50 MiB, 1 MiB a partition, at least 1 byte, at most 5 s wait
//	prefetch     one fetch a broker is buffered until it is polled
//	group        classic protocol, cooperative-sticky, offset reset to the start, autocommit 5 s
//	partitioner  uniform bytes: 64 KiB to one partition, then to the one with the least backlog
//
// With skew the records name their partition instead.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience  = 115 * time.Second // below what the caller waits, so that it hears the reason
	tooLarge  = 2 << 20
	maxValues = 8191 // more are sent again: prime, so that no partition gets the same ones
)

type spec struct {
	Role         string  `json:"role"`
	Bootstrap    string  `json:"bootstrap"`
	Topic        string  `json:"topic"`
	Partitions   int32   `json:"partitions"`
	Messages     int     `json:"messages"`
	MessageBytes int     `json:"message_bytes"`
	Skew         bool    `json:"skew"`
	Group        string  `json:"group"`
	Protocol     string  `json:"protocol"`
	Shared       bool    `json:"shared"`
	Rate         float64 `json:"rate"`
	Seconds      float64 `json:"seconds"`
}

type answer map[string]any

func main() {
	asked, err := parsed(os.Args)
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var found answer
	switch asked.Role {
	case "produce":
		found, err = produce(ctx, asked)
	case "consume":
		found, err = consume(ctx, asked)
	case "latency":
		found, err = latency(ctx, asked)
	default:
		err = fmt.Errorf("unknown role %q", asked.Role)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not end within %v: %w", asked.Role, patience, err)
	}
	if err != nil {
		fail(err)
	}
	line, err := json.Marshal(found)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "franz-go: %v\n", err)
	os.Exit(1)
}

func parsed(arguments []string) (asked spec, err error) {
	if len(arguments) != 2 {
		return asked, errors.New("expected one argument, the spec as a JSON object")
	}
	asked = spec{Partitions: 1, MessageBytes: 1000, Rate: 200, Seconds: 1}
	err = json.Unmarshal([]byte(arguments[1]), &asked)
	return asked, err
}

func connected(ctx context.Context, asked spec, options ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...))...)
	if err != nil {
		return nil, err
	}
	return client, client.Ping(ctx)
}

func produce(ctx context.Context, asked spec) (answer, error) {
	var options []kgo.Opt
	if asked.Skew {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := connected(ctx, asked, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := loadMetadata(ctx, client, asked.Topic); err != nil {
		return nil, err
	}
	records := newRecords(asked)
	var failure error
	var once sync.Once
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			once.Do(func() { failure = err })
		}
	}
	start := time.Now()
	for i := range records {
		client.Produce(ctx, &records[i], acknowledged)
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	seconds := time.Since(start).Seconds()
	return answer{"seconds": seconds}, failure
}

// loadMetadata makes the producer load the topic's metadata, which else its first record does: one
// larger than any batch is refused by the client as soon as they are there, and is never sent.
func loadMetadata(ctx context.Context, client *kgo.Client, topic string) error {
	large := &kgo.Record{Topic: topic, Value: make([]byte, tooLarge)}
	if err := client.ProduceSync(ctx, large).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		return fmt.Errorf("topic %s is not ready: %w", topic, err)
	}
	return nil
}

func newRecords(asked spec) []kgo.Record {
	values := newValues(min(asked.Messages, maxValues), asked.MessageBytes)
	records := make([]kgo.Record, asked.Messages)
	for i := range records {
		records[i].Topic = asked.Topic
		records[i].Value = values[i%len(values)]
		if asked.Skew {
			records[i].Partition = skewed(i, asked.Partitions)
		}
	}
	return records
}

// skewed gives nine of ten records to partition 0, and the rest to the others in turn.
func skewed(i int, partitions int32) int32 {
	if i%10 != 9 || partitions == 1 {
		return 0
	}
	return 1 + int32(i/10)%(partitions-1)
}

// newValues are half random and half constant.
func newValues(count, size int) [][]byte {
	values := make([][]byte, count)
	for i := range values {
		values[i] = make([]byte, size)
		rand.Read(values[i][:size/2])
	}
	return values
}
