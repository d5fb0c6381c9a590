package cachetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// Record makes a record whose fields and body follow from key, token and size alone, so that [Verify] can tell damage. Index and
// Partial are not set.
func Record(key string, token uint64, size int) *cache.Record {
	return &cache.Record{
		Key:      key,
		Primary:  key,
		Token:    token,
		StoredAt: time.Unix(1_700_000_000+int64(token), 123).UTC(),
		Status:   http.StatusOK,
		Fields: cache.NewFields(http.Header{
			"Content-Type": {"application/octet-stream"},
			"Etag":         {fmt.Sprintf(`"%d"`, token)},
		}),
		Body: cache.MemoryBody(Content(key, token, size)),
		Life: policy.Life{
			BornAt:   time.Now().Add(-time.Second).UTC().Truncate(time.Microsecond),
			FreshFor: time.Hour,
			StaleFor: 2 * time.Hour,
			ErrorFor: 3 * time.Hour,
		},
		Tags: []string{"all", "key:" + key},
	}
}

// Content is the body that [Record] gives a record.
func Content(key string, token uint64, size int) []byte {
	var seed [32]byte
	copy(seed[:16], key)
	binary.LittleEndian.PutUint64(seed[16:], token)
	binary.LittleEndian.PutUint64(seed[24:], uint64(len(key)))
	p := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(p) // never fails
	return p
}

// Verify tells what is wrong with a record that a store gave for key: nil if it is what Record made, byte for byte. An error
// that opening the body returns is wrapped.
func Verify(key string, r *cache.Record) error {
	if r.Key != key {
		return fmt.Errorf("record of %q under key %q", r.Key, key)
	}
	body, err := ReadBody(r.Body)
	if err != nil {
		return fmt.Errorf("body of %q: %w", key, err)
	}
	if want := Content(key, r.Token, len(body)); !bytes.Equal(body, want) {
		return fmt.Errorf("body of %q, token %d, %d bytes: damaged", key, r.Token, len(body))
	}
	if got, want := r.Fields.Get("Etag"), fmt.Sprintf(`"%d"`, r.Token); got != want {
		return fmt.Errorf("fields of %q are not those of token %d: ETag %s", key, r.Token, got)
	}
	return nil
}

// ReadBody reads a body to its end and checks its length.
func ReadBody(b cache.Body) ([]byte, error) {
	f, err := b.Open()
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	p, err := io.ReadAll(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && int64(len(p)) != b.Size() {
		err = fmt.Errorf("%d bytes, size says %d", len(p), b.Size())
	}
	return p, err
}

// Diff compares two records, bodies by content, and returns "" if they are equal.
func Diff(want, got *cache.Record) string {
	wantBody, werr := ReadBody(want.Body)
	gotBody, gerr := ReadBody(got.Body)
	if werr != nil || gerr != nil {
		return fmt.Sprintf("bodies: want %v, got %v", werr, gerr)
	}
	w, g := *want, *got
	w.Body, g.Body = cache.Body{}, cache.Body{}
	if !bytes.Equal(wantBody, gotBody) {
		return fmt.Sprintf("bodies of %d and %d bytes differ", len(wantBody), len(gotBody))
	}
	return cmp.Diff(w, g, cmp.Transformer("block", cache.Fields.Block), cmp.Transformer("lines", cache.Lines.Block),
		cmp.Comparer(func(a, b cache.Body) bool { return true }))
}

// syncer is implemented by stores that do work behind.
type syncer interface{ Sync(context.Context) error }

// Sync waits until s has done the work that it does behind, if it does any.
func Sync(t testing.TB, s cache.Store) {
	t.Helper()
	if s, ok := s.(syncer); ok {
		if err := s.Sync(t.Context()); err != nil {
			t.Errorf("Sync: %v", err)
		}
	}
}
