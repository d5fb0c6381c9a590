package cache

import (
	"context"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// Config is what a [Cache] is made of. Only Store is required.
type Config struct {
	// Store keeps the records, for example memory.New. The cache closes it.
	Store Store
	// Keeper says who may fetch a key now. Nil means a fill.Table with Fill.Tenure. The cache closes it.
	Keeper Keeper
	// Sequence numbers fills and invalidations; it must be the one that Keeper uses. Nil makes one, which only goes with a nil Keeper.
	Sequence *fill.Sequence
	// Rules are tried in order, the first match wins. None means one rule that matches everything.
	Rules []Rule
	Fill  FillConfig
	// Object bounds what is stored.
	Object ObjectConfig
	// Observer is told what happens. Nil means nobody is.
	Observer Observer
	// Scheme tells a request's scheme, "http" or "https". Nil means https exactly if the request came over TLS.
	Scheme func(*http.Request) string
	// TagFields are the response fields that list surrogate keys. Nil means Surrogate-Key and Cache-Tag.
	TagFields []string
}

// Keeper grants leases on keys. fill.Table and filelease.Keeper are keepers.
type Keeper interface {
	TryAcquire(fill.Key) (*fill.Lease, error)
	Join(fill.Key) (*fill.Lease, *fill.Waiter, error)
	Supersede(fill.Key) (*fill.Lease, error)
	Close(context.Context) error
}

// Rule says which requests it is for and how they are cached.
type Rule struct {
	// Name appears in logs and metrics and keeps the rule's keys apart from those of other rules. Required, unique.
	Name string
	// Match selects requests; its zero value selects all.
	Match policy.MatchSpec
	// Key says what beside scheme, authority, path and query tells records apart. Its Space is set to Name.
	Key policy.KeySpec
	// Policy is the rule's stale policy.
	Policy policy.Settings
	// Upstream answers what the cache can not. Nil means the one given to Handler, Transport or Proxy.
	Upstream http.RoundTripper
	// Origin names the upstream in the bound of fills at once. "" means Name.
	Origin string
	// Pass sends every request of this rule to the upstream, nothing stored.
	Pass bool
}

// FillConfig bounds fills and the readers who wait for them.
type FillConfig struct {
	// Tenure is how long a fill without progress keeps its key. 0 means 10 s.
	Tenure time.Duration
	// Wait is how long a reader waits for somebody else's fill. After that it gets what is stored, if that may be served in place of an
	// error, else 504; it does not go to an origin that is slow already. 0 means 15 s, negative no limit but the reader's own context.
	Wait time.Duration
	// Concurrency is how many fills may run at once for one origin. 0 means 512, negative no limit. Fills that readers wait for queue for a
	// place; a background refresh that finds none is dropped, the next stale read tries again.
	Concurrency int
	// BackoffFirst and BackoffMax bound the pause between attempts after failures: it starts at First, doubles up to Max, and is
	// jittered by a quarter. 0 means 1 s and 60 s.
	BackoffFirst, BackoffMax time.Duration
	// MarkFor is how long a key whose answer could not be shared sends its readers straight to the origin. 0 means 10 s, negative off.
	MarkFor time.Duration
	// Timeout bounds one fill from start to last byte whatever its progress. 0 means none beyond tenure and the origin's own timeouts.
	Timeout time.Duration
}

// ObjectConfig bounds single objects.
type ObjectConfig struct {
	// Max is the largest body stored, in bytes. 0 means 256 MiB. Larger answers stream through.
	Max int64
	// Variants is how many variants of one key are kept. 0 means 64.
	Variants int
}
