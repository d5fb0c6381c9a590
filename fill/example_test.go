package fill_test

import (
	"context"
	"fmt"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

func Example() {
	table := fill.New(fill.Options{Tenure: 10 * time.Second})
	defer table.Close(context.Background())
	key := fill.Key{Space: "app", ID: "https://example.org/"}

	lease, _, _ := table.Join(key)  // the first reader is the holder
	_, waiter, _ := table.Join(key) // the second waits for it

	_, err := table.TryAcquire(key) // a third, content with stale, does neither
	fmt.Println(err)

	if lease.CheckCommit() == nil { // fetched: may it be stored?
		lease.Settle(fill.Outcome{Kind: fill.Stored})
	}
	out, _ := waiter.Wait(context.Background(), time.Second)
	fmt.Println(out.Kind) // look again
	// Output:
	// fill: key is held
	// stored
}
