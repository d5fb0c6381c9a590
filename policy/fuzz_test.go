package policy

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// FuzzTarget: whatever net/http accepts has a normal form or is refused; the normal form is its own normal form, goes
// on the wire as it is, and has no dot segments, no raw delimiters and no way for an encoded slash to become one.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/x", "/a%2fb?c=%2f", "http://h/x", "//a//b", "/..;/x", "/%", "/\xff", "*", "/a#b", "/%C3%A4 ä"} {
		f.Add(s, "example.org:80")
	}
	f.Fuzz(func(t *testing.T, uri, host string) {
		head := "GET " + uri + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			return
		}
		target, err := NewTarget(r, "http")
		if err != nil {
			return
		}
		if p := target.Path; p == "" || p[0] != '/' || strings.ContainsAny(p, "?#\\ \x00\x7f") || hasDotSegment(p) {
			t.Fatalf("path %q of %q", p, uri)
		}
		if strings.Count(target.Path, "/") > strings.Count(uri+"/", "/") {
			t.Fatalf("path %q of %q has more segments", target.Path, uri)
		}
		if strings.ContainsAny(target.Authority, "/@?#\\ \x00") || target.Authority != strings.ToLower(target.Authority) {
			t.Fatalf("authority %q of %q", target.Authority, host)
		}
		u := target.URL()
		if u.EscapedPath() != target.Path {
			t.Fatalf("%q is forwarded as %q", target.Path, u.EscapedPath())
		}
		again, err := newTarget("GET", "http", target.Authority, target.Path, target.RawQuery, "")
		if err != nil || again != target {
			t.Fatalf("normal form of %+v is %+v, %v", target, again, err)
		}
		if isNormalPath(target.Path) != true {
			t.Fatalf("normal path %q is not taken as normal", target.Path)
		}
	})
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err == nil && (plain == "." || plain == "..") {
			return true
		}
	}
	return false
}

// FuzzKey: two targets share a key only if they are the same; ignoring and sorting never make parameters appear.
func FuzzKey(f *testing.F) {
	f.Add("a", "/x", "q=1", "b", "/x", "q=1")
	f.Add("a", "/x?y", "", "a", "/x", "y")
	f.Add("s\x00http://a", "/", "", "s", "/", "")
	f.Fuzz(func(t *testing.T, authorityA, pathA, queryA, authorityB, pathB, queryB string) {
		a, errA := newTarget("GET", "http", authorityA, pathA, queryA, "")
		b, errB := newTarget("GET", "http", authorityB, pathB, queryB, "")
		if errA != nil || errB != nil {
			return
		}
		plain, sorted := mustKey(t, KeySpec{Space: "s"}), mustKey(t, KeySpec{Query: QuerySpec{Sort: true}})
		if same := bytes.Equal(plain.Append(nil, &a, nil), plain.Append(nil, &b, nil)); same != sameResource(&a, &b) {
			t.Fatalf("same key = %v for %+v and %+v", same, a, b)
		}
		normal := a
		normal.RawQuery, _ = strings.CutPrefix(string(sorted.query.append(nil, a.RawQuery)), "?")
		if got, want := sortedParams(normal.RawQuery), sortedParams(a.RawQuery); !slices.Equal(got, want) {
			t.Fatalf("sorting made %q of %q", got, want)
		}
		if !bytes.Equal(sorted.Append(nil, &normal, nil), sorted.Append(nil, &a, nil)) {
			t.Fatalf("sorting %q twice gives something else", a.RawQuery)
		}
	})
}

func sortedParams(query string) []string {
	params := slices.DeleteFunc(strings.Split(query, "&"), func(s string) bool { return s == "" })
	slices.Sort(params)
	return params
}

// FuzzVariant: requests of one variant agree on whether a field is there; normalising is idempotent, and space around
// commas never matters.
func FuzzVariant(f *testing.F) {
	for _, s := range []string{"gzip, br", "de-AT;q=0.8,*;q=0.1", `"a,b", c`, "", ",", "\x00\x01", `"`, "gzip;q=0.0001"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		for _, name := range []string{"Foo", "Accept-Encoding", "Accept-Language", "Cookie"} {
			of := func(lines ...string) string {
				return string(AppendVariant(nil, []string{name}, http.Header{name: lines}))
			}
			if of() == of(x) {
				t.Fatalf("%s: %q is like no field", name, x)
			}
			if strings.Count(of(x), "\x00") != 1 {
				t.Fatalf("%s: %q has a delimiter in it: %q", name, x, of(x))
			}
			if name == "Cookie" {
				if (of(x) == of(y)) != (x == y) {
					t.Fatalf("cookies %q and %q: same = %v", x, y, of(x) == of(y))
				}
				continue
			}
			if strings.ContainsAny(x+y, "\"\\") {
				continue
			}
			if one, two := of(x+","+y), of(" "+x+" ,\t"+y); one != two {
				t.Fatalf("%s: space matters in %q, %q", name, x, y)
			}
			if one, two := of(x+","+y), of(x, y); one != two {
				t.Fatalf("%s: lines %q, %q are not combined", name, x, y)
			}
		}
	})
}

// FuzzVary: any order and any division into lines name the same fields.
func FuzzVary(f *testing.F) {
	f.Add("a, b", "*")
	f.Add("Accept-Encoding,,", "x y")
	f.Fuzz(func(t *testing.T, x, y string) {
		one, star := VaryOf(http.Header{"Vary": {x, y}})
		two, star2 := VaryOf(http.Header{"Vary": {y, x}})
		if star != star2 || !slices.Equal(one, two) {
			t.Fatalf("order of lines matters: %q, %v and %q, %v", one, star, two, star2)
		}
		if !slices.IsSorted(one) || star && one != nil {
			t.Fatalf("fields %q, star %v", one, star)
		}
		for _, name := range one {
			if !isToken(name) || http.CanonicalHeaderKey(name) != name {
				t.Fatalf("%q is no field name", name)
			}
		}
	})
}

// FuzzJudge is the differential test of time: from a response as an origin may send it, under any rule and for any
// request, the verdict never gets fresher as time goes by, and neither does the answer to an origin's failure.
func FuzzJudge(f *testing.F) {
	f.Add("max-age=10, stale-while-revalidate=5, stale-if-error=20", "max-stale=3", "Tue, 01 Jan 2030 11:59:00 GMT", "5", uint32(0), uint32(7), uint8(0))
	f.Add("s-maxage=1, stale-while-revalidate=5", "max-age=5, max-stale", "x", "0, 1", uint32(1000), uint32(1<<31), uint8(3))
	f.Add("public", "min-fresh=2", "", "", uint32(60000), uint32(1), uint8(255))
	f.Fuzz(func(t *testing.T, control, wish, at, age string, after, later uint32, knobs uint8) {
		s := &Settings{Override: knobs&1 > 0, StrictAge: knobs&2 > 0}
		if knobs&4 > 0 {
			s.TTL, s.StaleWhileRevalidate, s.StaleIfError = 20*sec, 30*sec, 40*sec
		}
		h := http.Header{"Cache-Control": {control}, "Date": {at}, "Expires": {at}, "Last-Modified": {at}, "Age": {age}}
		if knobs&8 > 0 {
			delete(h, "Cache-Control")
		}
		if knobs&16 > 0 {
			delete(h, "Expires")
		}
		req := reads()
		req.Control = readRequestControl(http.Header{"Cache-Control": {wish}})
		l := Admit(s, req, 200, h, t0.Add(-time.Duration(knobs)*time.Millisecond), t0).Life
		if l.FreshFor < 0 || l.FreshFor > Forever || l.StaleFor < 0 || l.StaleFor > Forever || l.ErrorFor < 0 || l.ErrorFor > Forever || l.BornAt.After(t0) {
			t.Fatalf("life %+v", l)
		}
		first := t0.Add(time.Duration(after) * time.Millisecond)
		second := first.Add(time.Duration(later) * time.Millisecond)
		neverFresher(t, l, req, first, second)
		neverFresher(t, l.Expire(first), req, first, second)
		if purged := Judge(l.Expire(first), req, first); purged.Use < Judge(l, req, first).Use {
			t.Fatalf("a soft purge made %+v fresher", l)
		}
	})
}

func neverFresher(t *testing.T, l Life, req *Request, first, second time.Time) {
	t.Helper()
	v, w := Judge(l, req, first), Judge(l, req, second)
	if w.Use < v.Use || v.Use < Fresh || v.Use > MustWait || v.Reason == 0 {
		t.Fatalf("%+v for %+v: %v (%v) at %v, %v (%v) at %v", l, req.Control, v.Use, v.Reason, first, w.Use, w.Reason, second)
	}
	ok, _ := OnError(l, req, first)
	if late, r := OnError(l, req, second); late && !ok {
		t.Fatalf("%+v for %+v: usable after an error at %v only (%v)", l, req.Control, second, r)
	}
	if v.Use == StaleWhileRevalidate && l.forbidsStale() {
		t.Fatalf("%+v is served stale", l)
	}
}

// FuzzControl: parsing never panics, order of directives does not matter, and adding a directive never makes a
// response fresher or storable again.
func FuzzControl(f *testing.F) {
	for _, s := range []string{"max-age=5", `no-cache="a,b"`, "private;", `x="`, "max-age=1, max-age=99999999999999", "s-maxage"} {
		f.Add(s, "no-store")
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		one, two := readCacheControl([]string{x, y}), readCacheControl([]string{y, x})
		slices.Sort(one.fields)
		slices.Sort(two.fields)
		if one.noStore != two.noStore || one.private != two.private || one.noCache != two.noCache || one.maxAge != two.maxAge ||
			one.sMaxAge != two.sMaxAge || one.invalid != two.invalid || !slices.Equal(one.fields, two.fields) {
			t.Fatalf("order of lines matters: %+v, %+v", one, two)
		}
		alone := readCacheControl([]string{x})
		if alone.noStore && !one.noStore || alone.private && !one.private || alone.noCache && !one.noCache ||
			alone.maxAge.Set && one.maxAge.D > alone.maxAge.D || alone.sMaxAge.Set && one.sMaxAge.D > alone.sMaxAge.D {
			t.Fatalf("%q made %+v looser: %+v", y, alone, one)
		}
		for _, name := range one.fields {
			if !isToken(name) {
				t.Fatalf("field name %q", name)
			}
		}
		_ = readRequestControl(http.Header{"Cache-Control": {x, y}})
		if c, ok := readTargeted([]string{x, y}); ok {
			if _, err := httpsfv.UnmarshalDictionary([]string{x, y}); err != nil || !c.targeted {
				t.Fatalf("%q, %q taken as a dictionary: %v", x, y, err)
			}
		}
	})
}

// FuzzRange: parts lie inside the representation, are not empty, are few, and together not longer than it;
// Content-Range reads back as the part.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=-1", "bytes=0-1,8-9", "bytes=9-0", "chars=0-1", "bytes=0-,0-,0-,0-", "bytes=,1-", "bytes=-0"} {
		f.Add(s, "", int64(10))
		f.Add(s, `"a"`, int64(1<<40))
	}
	f.Fuzz(func(t *testing.T, value, ifRange string, size int64) {
		req := http.Header{"Range": {value}}
		if ifRange != "" {
			req["If-Range"] = []string{ifRange}
		}
		parts, result := SelectRange(req, fields(`ETag: "a"`), size)
		if (result == RangeOK) != (len(parts) > 0) || len(parts) > MaxRanges || result < RangeNone || result > RangeUnsatisfiable {
			t.Fatalf("%v with %d parts", result, len(parts))
		}
		var total int64
		for _, b := range parts {
			if b.Start < 0 || b.Length <= 0 || b.Start+b.Length > size {
				t.Fatalf("part %+v of %d bytes", b, size)
			}
			if p, ok := ParseContentRange(ContentRange(b, size)); !ok || p.Start != b.Start || p.Length() != b.Length || p.Size != size {
				t.Fatalf("part %+v reads back as %+v", b, p)
			}
			total += b.Length
		}
		if total > size && total > 0 {
			t.Fatalf("%d bytes of %d", total, size)
		}
		_, _ = ParseContentRange(value)
		stored := Partial{3, 7, 10}
		if got, ok := SelectPart(req, fields(`ETag: "a"`), stored); ok {
			for _, b := range got {
				if b.Start < stored.Start || b.Start+b.Length-1 > stored.End {
					t.Fatalf("part %+v of %+v", b, stored)
				}
			}
		}
	})
}

// FuzzETags: a tag matches a list that contains it, whatever else is in front; matching strongly implies matching
// weakly.
func FuzzETags(f *testing.F) {
	f.Add(`"a", "b"`, `"a"`)
	f.Add(`W/"a,b"`, `W/"a,b"`)
	f.Add(`*`, ``)
	f.Add(`"`, `a`)
	f.Fuzz(func(t *testing.T, list, stored string) {
		weak, strong := matchETags([]string{list}, stored, false), matchETags([]string{list}, stored, true)
		if strong && !weak {
			t.Fatalf("%q matches %q strongly only", list, stored)
		}
		e, ok := parseETag(stored)
		if !ok {
			return
		}
		if !matchETags([]string{`"x", ` + stored + `, ` + list}, stored, false) {
			t.Fatalf("%q is not in a list that has it", stored)
		}
		if matchETags([]string{stored}, stored, true) == e.weak {
			t.Fatalf("%q matches itself strongly: %v", stored, !e.weak)
		}
	})
}

// FuzzDates: what is read is an HTTP-date that writes the same, and no field that holds a time makes a negative span.
func FuzzDates(f *testing.F) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "0", "120", "-1", "0, 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, ok := HTTPTime(s); ok {
			again, ok := HTTPTime(at.Format(http.TimeFormat))
			if at.Year() > 999 && (!ok || !again.Equal(at)) {
				t.Fatalf("%q is %v, which reads as %v", s, at, again)
			}
		}
		if d, ok := RetryAfter(http.Header{"Retry-After": {s}}, t0); ok && (d < 0 || d > Forever) {
			t.Fatalf("Retry-After %q is %v", s, d)
		}
		if d, _ := ageField(http.Header{"Age": {s}}); d < 0 || d > Forever {
			t.Fatalf("Age %q is %v", s, d)
		}
	})
}

// FuzzCacheStatus: whatever is put in, the member is a well-formed structured field with the same key and detail.
func FuzzCacheStatus(f *testing.F) {
	f.Add("GET\x00http://a/", "stale-while-revalidate", 5)
	f.Add(`"\`, "é", -5)
	f.Fuzz(func(t *testing.T, key, detail string, ttl int) {
		ttl %= 1 << 40
		c := CacheStatus{Fwd: FwdStale, Key: key, Detail: detail, HasTTL: true, TTL: ttl}
		list, err := httpsfv.UnmarshalList([]string{string(c.Append(nil))})
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", c.Append(nil), err)
		}
		item := list[0].(httpsfv.Item)
		if n, _ := item.Params.Get("ttl"); n != int64(ttl) {
			t.Fatalf("ttl %v, want %d", n, ttl)
		}
		if k, ok := item.Params.Get("key"); ok != (key != "") || ok && len(k.(string)) != len(key) {
			t.Fatalf("key %q, want %q", k, key)
		}
	})
}
