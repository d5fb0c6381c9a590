package cache_test

import (
	"bytes"
	"net/http"
	"reflect"
	"runtime"
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
		Trailer: cache.NewLines(http.Header{"Checksum": {"1"}}),
		Body:    cache.MemoryBody([]byte("body")),
		Life:    policy.Life{BornAt: now, FreshFor: time.Minute},
		Tags:    []string{"a", "b"}, Partial: &cache.Partial{Start: 1, Size: 9},
	}
	plain := &cache.Record{Key: "plain", Primary: "plain", Body: cache.MemoryBody(nil)}
	large := &cache.Record{Key: "large", Primary: "large", Tags: []string{"c"}, Body: cache.MemoryBody(bytes.Repeat([]byte("x"), 1<<20))}
	index := &cache.Record{Key: "index", Primary: "index", Index: &cache.Index{Variants: []string{"key\x00variant"}}}
	from := []*cache.Record{full, plain, large, index}
	for name, from := range map[string][]*cache.Record{"all": from, "compact": {full, plain, index}} {
		t.Run(name, func(t *testing.T) { packsWell(t, from) })
	}
}

func packsWell(t *testing.T, from []*cache.Record) {
	to := cache.Pack(from)
	runtime.GC()
	copied := func(i int) *cache.Record { return to.Record(to.Places()[i]) }
	for i, want := range from {
		got := copied(i)
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
	body, _ := copied(0).Body.Bytes()
	if _ = append(body, "more"...); copied(1).Key != "plain" {
		t.Error("what is appended to a packed body overwrites its neighbour")
	}
}

func TestPackedSize(t *testing.T) {
	small := &cache.Record{Key: "key", Primary: "key", Body: cache.MemoryBody(make([]byte, 1000)), Tags: []string{"a"}}
	large := &cache.Record{Key: "key", Primary: "key", Body: cache.MemoryBody(make([]byte, 1<<20))}
	bare := int(unsafe.Sizeof(*small)) + len("key")
	whole := func(n int) int { return (n + 7) / 8 * 8 }
	if n := small.PackedSize(); !small.Compact() || n != whole(bare+1000+len("a")+int(unsafe.Sizeof(""))) {
		t.Errorf("a small record: %d bytes, compact: %t", n, small.Compact())
	}
	if n := large.PackedSize(); large.Compact() || n != whole(bare) {
		t.Errorf("a large body: %d bytes, compact: %t", n, large.Compact())
	}
}

// The collector does not see the pointers in compact copies: each must lead to where the copies are.
func TestPackIsClosed(t *testing.T) {
	zone := time.FixedZone("elsewhere", 3600)
	r := &cache.Record{
		Key: "key\x00variant", Primary: "key", StoredAt: time.Now().In(zone), Life: policy.Life{BornAt: time.Now().In(zone)},
		Fields:  cache.NewFields(http.Header{"Date": {"then"}}),
		Trailer: cache.NewLines(http.Header{"Checksum": {"1"}}),
		Body:    cache.MemoryBody([]byte("body")),
		Tags:    []string{"a", "b"}, Partial: &cache.Partial{Start: 1, Size: 9},
		Index: &cache.Index{Specs: [][]string{{"Accept"}, {}}, Variants: []string{"v"}},
	}
	to := cache.Pack([]*cache.Record{r, {}, r})
	size := uintptr(r.PackedSize()*2 + new(cache.Record).PackedSize())
	in := enclosure{t: t, from: uintptr(unsafe.Pointer(to.Record(0)))}
	in.to = in.from + size
	for _, at := range to.Places() {
		in.check("Record", reflect.ValueOf(to.Record(at)).Elem())
	}
	if want := 2 * 15; in.found != want {
		t.Errorf("%d pointers were looked at, want %d", in.found, want)
	}
}

// enclosure is a part of memory.
type enclosure struct {
	t        *testing.T
	from, to uintptr
	found    int
}

// check walks all that v leads to.
func (in *enclosure) check(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if in.holds(path, v.Pointer()) {
			in.check(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			in.check(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.String:
		in.holds(path, uintptr(unsafe.Pointer(unsafe.StringData(v.String()))))
	case reflect.Slice:
		in.holds(path, v.Pointer())
		for i := range v.Len() {
			in.check(path, v.Index(i))
		}
	case reflect.Interface, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		if !v.IsZero() {
			in.t.Errorf("%s is not nil", path)
		}
	case reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Bool || k > reflect.Complex128 {
			in.t.Errorf("%s: an array of %s", path, k)
		}
	}
}

// holds tells whether there is a pointer, which must lead into the enclosure.
func (in *enclosure) holds(path string, at uintptr) bool {
	if at == 0 {
		return false
	}
	in.found++
	if at < in.from || at >= in.to {
		in.t.Errorf("%s leads out of the copies' memory", path)
	}
	return true
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
