// Command main uses transactions by franz-go: `transact` ends some, `copy` copies exactly once.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience      = 2 * time.Minute
	recordsAtOnce = 20
	abortsEvery   = 5 // of the transactions of a copy
)

func main() {
	if len(os.Args) < 3 {
		fail(errors.New("expected: transact BOOTSTRAP COUNT, or copy BOOTSTRAP"))
	}
	seeds := kgo.SeedBrokers(strings.Split(os.Args[2], ",")...)
	var err error
	switch os.Args[1] {
	case "transact":
		var count int
		if count, err = strconv.Atoi(os.Args[3]); err == nil {
			err = transact(seeds, count)
		}
	case "copy":
		err = copyRecords(seeds)
	default:
		err = fmt.Errorf("unknown role %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	fmt.Println("done")
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "franz-go: %v\n", err)
	os.Exit(1)
}

// transact produces the numbers up to count, one a transaction; odd ones are aborted.
func transact(seeds kgo.Opt, count int) error {
	client, err := kgo.NewClient(seeds, kgo.TransactionalID("franz"), kgo.DefaultProduceTopic("out"))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for number := range count {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		record := kgo.StringRecord(strconv.Itoa(number))
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(number%2 == 0)); err != nil {
			return err
		}
	}
	return nil
}

// copyRecords copies topic in to topic out, with its offsets in the transactions, until it is killed.
func copyRecords(seeds kgo.Opt) error {
	session, err := kgo.NewGroupTransactSession(
		seeds,
		kgo.TransactionalID("franz-copy"),
		kgo.TransactionTimeout(10*time.Second),
		kgo.ConsumerGroup("franz-copy"),
		kgo.ConsumeTopics("in"),
		kgo.DefaultProduceTopic("out"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for number := 1; ; number++ {
		if err := copySome(session, number%abortsEvery != 0); err != nil {
			return err
		}
	}
}

func copySome(session *kgo.GroupTransactSession, commits bool) error {
	ctx := context.Background()
	fetches := session.PollRecords(ctx, recordsAtOnce)
	if fetches.NumRecords() == 0 {
		return nil // a leader is gone, or a member came: polled again
	}
	if err := session.Begin(); err != nil {
		return err
	}
	first := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(each *kgo.Record) {
		session.Produce(ctx, kgo.SliceRecord(each.Value), first.Promise())
	})
	failure := first.Err()
	if failure != nil {
		fmt.Println("not produced:", failure)
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(commits && failure == nil))
	fmt.Println("records", fetches.NumRecords(), "committed", committed)
	return err
}
