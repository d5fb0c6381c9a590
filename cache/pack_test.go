package cache_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// What Pack copies says the same as the original, whatever stands beside it.
func TestPackKeepsRecords(t *testing.T) {
	now := time.Now().UTC()
	full := &cache.Record{
		Key: "key\x00variant", Primary: "key", Token: 7, StoredAt: now, Status: 200,
		Fields:  cache.NewFields(http.Header{"Date": {"then"}, "Etag": {`"v1"`}}),
		Trailer: cache.NewFields(http.Header{"Checksum": {"1"}}),
		Body:    cache.MemoryBody([]byte("body")),
		Life:    policy.Life{BornAt: now, FreshFor: time.Minute},
		Tags:    []string{"a", "b"}, Partial: &cache.Partial{Start: 1, Size: 9},
	}
	plain := &cache.Record{Key: "plain", Primary: "plain", Body: cache.MemoryBody(nil)}
	large := &cache.Record{Key: "large", Primary: "large", Tags: []string{"c"}, Body: cache.MemoryBody(bytes.Repeat([]byte("x"), 1<<20))}
	index := &cache.Record{Key: "index", Primary: "index", Index: &cache.Index{Variants: []string{"key\x00variant"}}}
	from := []*cache.Record{full, plain, large, index}
	to := make([]cache.Record, len(from))
	cache.Pack(from, func(i int) *cache.Record { return &to[i] })
	for i, want := range from {
		got := &to[i]
		if diff := cmp.Diff(shown(want), shown(got)); diff != "" {
			t.Errorf("%s: packed (-want +got):\n%s", want.Key, diff)
		}
		if got.Cost() != want.Cost() {
			t.Errorf("%s: packed costs %d, not %d", want.Key, got.Cost(), want.Cost())
		}
		if unsafe.StringData(got.Key) == unsafe.StringData(want.Key) {
			t.Errorf("%s: the copy's key is the original's memory", want.Key)
		}
	}
	if n := large.PackedSize(); n > 100 {
		t.Errorf("a large body is counted as packed: %d bytes", n)
	}
	copied, _ := to[0].Body.Bytes()
	if _ = append(copied, "more"...); !strings.HasPrefix(to[2].Key, "large") {
		t.Error("what is appended to a packed body overwrites its neighbour")
	}
}

// shown is a record as far as it can be compared.
func shown(r *cache.Record) map[string]any {
	body, _ := r.Body.Bytes()
	return map[string]any{
		"key": r.Key, "primary": r.Primary, "token": r.Token, "stored": r.StoredAt, "status": r.Status, "fields": r.Fields.Block(),
		"trailer": r.Trailer.Block(), "body": string(body), "size": r.Body.Size(), "life": r.Life, "tags": strings.Join(r.Tags, " "),
		"partial": r.Partial, "index": r.Index,
	}
}
