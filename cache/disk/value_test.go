package disk

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
	"github.com/swrproxy/swrproxy/policy"
)

// samples are records that use every part of the format.
func samples() map[string]*cache.Record {
	full := cachetest.Record("rule\x00https://example.org/ü?a=1", 1<<63, 0)
	full.Primary = "another"
	full.Trailer = cache.NewLines(http.Header{"X-Checksum": {"1", ""}})
	full.Partial = &cache.Partial{Start: 1 << 40, Size: -1}
	full.Life = policy.Life{
		BornAt: time.Unix(-5, 999_999_999).UTC(), FreshFor: policy.Forever, StaleFor: -time.Second, ErrorFor: 1,
		Flags: policy.MustRevalidate | policy.OriginStale,
	}
	return map[string]*cache.Record{
		"zero":  {},
		"full":  full,
		"plain": cachetest.Record("a", 1, 0),
		"index": {
			Key: "i", Primary: "i", Token: 9,
			Index: &cache.Index{Specs: [][]string{{}, {"Accept"}, {"A", "B"}}, Variants: []string{"x", "y"}},
		},
		"empty index": {Key: "i", Primary: "i", Index: &cache.Index{}},
	}
}

func TestValueRoundTrip(t *testing.T) {
	for name, want := range samples() {
		t.Run(name, func(t *testing.T) {
			b := ref{kind: bodyInline, id: 7, size: 100, sum: 1 << 63}
			v := appendValue([]byte("before"), want, b, 42)[len("before"):]
			got, head, err := decodeValue(v)
			if err != nil {
				t.Fatal(err)
			}
			if wantHead := (header{hash: 42, token: want.Token, body: b}); head != wantHead {
				t.Errorf("header %+v, want %+v", head, wantHead)
			}
			if !want.StoredAt.Equal(got.StoredAt) || !want.Life.BornAt.Equal(got.Life.BornAt) {
				t.Errorf("times %v, %v", got.StoredAt, got.Life.BornAt)
			}
			w := *want
			w.Body = cache.Body{}
			if diff := diffRecords(&w, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func diffRecords(a, b *cache.Record) string {
	return cmp.Diff(a, b, cmp.Transformer("block", cache.Fields.Block), cmp.Transformer("lines", cache.Lines.Block),
		cmp.Comparer(func(a, b cache.Body) bool { return a.Size() == b.Size() }))
}

// The format may not change by accident: a store must read what an earlier program of the same version wrote.
func TestValueIsStable(t *testing.T) {
	r := &cache.Record{
		Key: "k", Primary: "p", Token: 3, StoredAt: time.Unix(1, 2).UTC(), Status: 200,
		Fields: cache.NewFields(http.Header{"A": {"b"}}),
		Life:   policy.Life{BornAt: time.Unix(0, 1).UTC(), FreshFor: 1, StaleFor: 2, ErrorFor: 3, Flags: policy.Explicit},
		Tags:   []string{"t"},
	}
	want := []byte("" +
		"\x61\xdd\xf6\x9a\x62\xc5\x54\x0e" + // checksum
		"\x00\x00\x00\x00\x00\x00\x00\x05" + // hash of the key
		"\x02\x01" + // version, kind
		"\x00\x00\x00\x00\x00\x00\x00\x03" + // token
		"\x00\x00\x00\x00\x00\x00\x00\x07" + // body: id, size, checksum
		"\x00\x00\x00\x00\x00\x00\x00\x08" +
		"\x00\x00\x00\x00\x00\x00\x00\x09" +
		"\x01" + // bits: primary
		"\x01k\x01p" +
		"\x02\x02" + // stored at
		"\xc8\x01" + // status
		"\x00\x01\x02\x04\x06\x10" + // life
		"\x06A: b\r\n" +
		"\x01\x01t") // tags
	got := appendValue(nil, r, ref{kind: bodyInline, id: 7, size: 8, sum: 9}, 5)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every single flipped bit and every cut is found.
func TestValueDamage(t *testing.T) {
	for name, r := range samples() {
		v := appendValue(nil, r, ref{}, 1)
		for i := range v {
			for bit := range 8 {
				v[i] ^= 1 << bit
				if _, _, err := decodeValue(v); !errors.Is(err, errDamaged) {
					t.Errorf("%s: bit %d of byte %d flipped: %v", name, bit, i, err)
				}
				v[i] ^= 1 << bit
			}
		}
		for n := range len(v) {
			if _, _, err := decodeValue(v[:n]); !errors.Is(err, errDamaged) {
				t.Errorf("%s: cut to %d of %d bytes: %v", name, n, len(v), err)
			}
		}
	}
}

// FuzzValue decodes what it is given: no panic, no large allocation, an error or a record that encodes to the same again.
func FuzzValue(f *testing.F) {
	for _, r := range samples() {
		f.Add(appendValue(nil, r, ref{}, 1))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		r, head, err := decodeValue(v)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Errorf("error %v is not errDamaged", err)
			}
			return
		}
		var names cache.Record
		if _, err := decodeNames(&names, v); err != nil || names.Key != r.Key || names.Primary != r.Primary || !slices.Equal(names.Tags, r.Tags) {
			t.Errorf("names %q of %q, %q, %v", names.Tags, names.Key, names.Primary, err)
		}
		again := appendValue(nil, r, head.body, head.hash)
		r2, head2, err := decodeValue(again)
		if err != nil || head2 != head || diffRecords(r, r2) != "" {
			t.Errorf("not stable: %v\n%s", err, diffRecords(r, r2))
		}
	})
}

// FuzzPayload is FuzzValue behind the checksum, which a fuzzer does not get past.
func FuzzPayload(f *testing.F) {
	for _, r := range samples() {
		f.Add(appendPayload(nil, r))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		d := decoder{rest: string(p)}
		r := d.record()
		if d.bad || d.rest != "" {
			return
		}
		d2 := decoder{rest: string(appendPayload(nil, r))}
		if r2 := d2.record(); d2.bad || diffRecords(r, r2) != "" {
			t.Errorf("not stable:\n%s", diffRecords(r, r2))
		}
	})
}

// FuzzState decodes states of the database.
func FuzzState(f *testing.F) {
	st := state{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, pair{13, 14}}
	f.Add(st.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := decodeState(b)
		if err == nil && !reflect.DeepEqual(st.encode(), b) {
			t.Errorf("%x decodes to %+v", b, st)
		}
	})
}
