package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const headBytes = 24 // mark, number, time of sending

// flow is one producer and one consumer of partition 0, and a mark that tells its messages from
// those of another run.
type flow struct {
	producer, consumer *kgo.Client
	topic              string
	size               int
	mark               [8]byte
	began              time.Time
}

// latency sends for a second that does not count, then for as many seconds as the spec says.
func latency(ctx context.Context, asked spec) (answer, error) {
	f, err := newFlow(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer f.producer.Close()
	defer f.consumer.Close()
	f.send(ctx, -1) // the consumer has its position once it read this one
	if err := f.receive(ctx, func(int64, time.Duration) bool { return true }); err != nil {
		return nil, err
	}
	ignored, wanted := int64(asked.Rate), int(asked.Rate*asked.Seconds)
	go f.sendAtRate(ctx, asked.Rate, ignored+int64(wanted))
	took := make([]time.Duration, 0, wanted)
	err = f.receive(ctx, func(number int64, elapsed time.Duration) bool {
		if number >= ignored {
			took = append(took, elapsed)
		}
		return len(took) == wanted
	})
	if err != nil {
		return nil, fmt.Errorf("read %d of %d messages: %w", len(took), wanted, err)
	}
	slices.Sort(took)
	return answer{"p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99), "messages": wanted}, nil
}

func newFlow(ctx context.Context, asked spec) (*flow, error) {
	f := &flow{topic: asked.Topic, size: max(headBytes, asked.MessageBytes), began: time.Now()}
	rand.Read(f.mark[:])
	partition := map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	var err error
	f.consumer, err = connected(
		ctx, asked, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: partition}),
	)
	if err != nil {
		return nil, err
	}
	f.producer, err = connected(ctx, asked, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return f, err
}

func (f *flow) send(ctx context.Context, number int64) {
	value := make([]byte, f.size)
	copy(value, f.mark[:])
	binary.BigEndian.PutUint64(value[8:], uint64(number))
	binary.BigEndian.PutUint64(value[16:], uint64(time.Since(f.began)))
	f.producer.Produce(ctx, &kgo.Record{Topic: f.topic, Value: value}, nil)
}

// receive reads until onMessage returns true.
func (f *flow) receive(ctx context.Context, onMessage func(int64, time.Duration) bool) error {
	for {
		fetches := f.consumer.PollFetches(ctx)
		now := time.Since(f.began)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			value := record.Value
			if len(value) < headBytes || !bytes.Equal(value[:8], f.mark[:]) {
				continue
			}
			sent := time.Duration(binary.BigEndian.Uint64(value[16:]))
			if onMessage(int64(binary.BigEndian.Uint64(value[8:])), now-sent) {
				return nil
			}
		}
	}
}

func (f *flow) sendAtRate(ctx context.Context, rate float64, total int64) {
	start := time.Now()
	for number := range total {
		time.Sleep(time.Until(start.Add(time.Duration(float64(number) / rate * 1e9))))
		f.send(ctx, number)
	}
}

func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(len(sorted)*percent/100, len(sorted)-1)
	return float64(sorted[at]) / 1e6
}
