package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const progressStep = 10 * time.Millisecond

// arrival is what was read so far, and when the first assignment came.
type arrival struct {
	mu              sync.Mutex
	assigned, first time.Time
	messages, bytes int
	progress        progress
}

func (a *arrival) onAssigned(partitions int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.assigned.IsZero() && partitions > 0 {
		a.assigned = time.Now()
	}
}

func (a *arrival) onFetched(messages, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.messages == 0 && messages > 0 {
		a.first = time.Now()
	}
	a.messages += messages
	a.bytes += bytes
	if messages > 0 {
		a.progress.onRead(a.messages)
	}
}

// progress prints when how many messages were read, if it is wanted. What comes too soon after a
// line is printed with the next one, or alone once a step is over: no line is left out for good.
type progress struct {
	wanted   bool
	mu       sync.Mutex
	messages int
	at       time.Time
	pending  *time.Timer
	printed  time.Time
}

func (p *progress) onRead(messages int) {
	if !p.wanted {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages, p.at = messages, time.Now()
	if p.pending == nil {
		p.pending = time.AfterFunc(time.Until(p.printed.Add(progressStep)), p.print)
	}
}

func (p *progress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending != nil {
		fmt.Printf("[%.6f, %d]\n", float64(p.at.UnixNano())/1e9, p.messages)
		p.pending, p.printed = nil, time.Now()
	}
}

func (a *arrival) answer(now time.Time, shared bool) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := answer{"messages": a.messages, "bytes": a.bytes}
	if shared {
		a.progress.print()
		return found
	}
	found["first_s"] = a.first.Sub(a.assigned).Seconds()
	found["seconds"] = now.Sub(a.assigned).Seconds()
	return found
}

func consume(ctx context.Context, asked spec) (answer, error) {
	if asked.Shared {
		ctx = untilStdin()
	}
	seen := &arrival{progress: progress{wanted: asked.Shared}}
	client, used, err := newMember(ctx, asked, seen.onAssigned)
	if err != nil {
		return nil, err
	}
	for asked.Shared || seen.messages < asked.Messages {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		seen.onFetched(counted(fetches))
	}
	now := time.Now()
	if !asked.Shared && ctx.Err() != nil {
		return nil, fmt.Errorf("read %d of %d messages: %w", seen.messages, asked.Messages, ctx.Err())
	}
	client.Close() // commits and leaves the group
	if seen.messages > 0 && asked.Protocol == "consumer" && !used.consumer.Load() {
		return nil, errors.New("the brokers have no ConsumerGroupHeartbeat 1, which KIP-848 needs here")
	}
	return seen.answer(now, asked.Shared), nil
}

func counted(fetches kgo.Fetches) (messages, bytes int) {
	fetches.EachRecord(func(record *kgo.Record) {
		messages++
		bytes += len(record.Value)
	})
	return messages, bytes
}

// untilStdin ends when stdin has a line or is closed.
func untilStdin() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	return ctx
}

func newMember(
	ctx context.Context, asked spec, onAssigned func(partitions int),
) (*kgo.Client, *protocolUsed, error) {
	used := &protocolUsed{}
	options := []kgo.Opt{
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			onAssigned(len(added[asked.Topic]))
		}),
		kgo.WithHooks(used),
	}
	if asked.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := connected(ctx, asked, options...)
	return client, used, err
}

// protocolUsed knows whether the group was joined by KIP-848: the client falls back in silence.
type protocolUsed struct{ consumer atomic.Bool }

func (p *protocolUsed) OnBrokerWrite(
	_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error,
) {
	if key == int16(kmsg.ConsumerGroupHeartbeat) {
		p.consumer.Store(true)
	}
}
