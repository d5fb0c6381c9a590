package policy

import (
	"net/http"
	"testing"
)

// BenchmarkHit is all that the package does for a fresh hit: read, normalise, key, select the variant, judge.
func BenchmarkHit(b *testing.B) {
	r := received(b, "GET /static/app.css?v=3 HTTP/1.1\nHost: www.example.org\nAccept: text/css,*/*;q=0.1\nAccept-Encoding: gzip, deflate, br, zstd\n"+
		"Accept-Language: de,en-US;q=0.7,en;q=0.3\nUser-Agent: x\nCookie: a=b")
	k := mustKey(b, KeySpec{Space: "site", Query: QuerySpec{Ignore: []string{"utm_*"}}})
	vary := []string{"Accept-Encoding"}
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		target, err := NewTarget(r, "https")
		if err != nil {
			b.Fatal(err)
		}
		req := ReadRequest(r, HonourDirectives)
		dst = k.Append(dst[:0], &target, r.Header)
		dst = AppendVariant(dst, vary, r.Header)
		if v := Judge(judged(0), &req, t0); v.Use != Fresh {
			b.Fatal(v)
		}
	}
}

// BenchmarkAdmit is the judgement of one response that comes from an origin.
func BenchmarkAdmit(b *testing.B) {
	h := fields("Cache-Control: public, max-age=60, stale-while-revalidate=30", "Date: "+date(0), `ETag: "a"`, "Last-Modified: "+date(-sec), "Vary: Accept-Encoding")
	req := reads()
	b.ReportAllocs()
	for b.Loop() {
		if adm := Admit(nil, req, http.StatusOK, h, t0, t0); !adm.Store {
			b.Fatal(adm)
		}
	}
}
