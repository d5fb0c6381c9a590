package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What both accept, both frame alike: otherwise bytes of one request would be taken for another.
func FuzzScanHead(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\nHost: a\nContent-Length: 1\n\n", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \t7 \r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, _ := headEnd(b, 0)
		if end == 0 {
			return
		}
		h, r := scanHead(b[:end])
		if r != refusalNone || h.framing == framingTunnel {
			return
		}
		rest := bufio.NewReader(bytes.NewReader(b))
		req, err := http.ReadRequest(rest)
		if err != nil {
			return
		}
		got := head{framing: framingNone}
		switch {
		case len(req.TransferEncoding) > 0:
			got.framing = framingChunked
		case req.ContentLength > 0:
			got = head{framing: framingLength, length: req.ContentLength}
		}
		if got != h {
			t.Errorf("%q: %+v here, %+v in net/http", b[:end], h, got)
		}
		if taken := len(b) - rest.Buffered(); len(b) <= 4096 && taken != end {
			t.Errorf("%q: the head ends at %d here, at %d in net/http", b, end, taken)
		}
	})
}

// A chunked body that ends here ends at the same place in net/http, with the same content whatever the pieces that it came in.
func FuzzChunkScan(f *testing.F) {
	for _, seed := range []string{
		"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n", "03\r\nabc\r\nA\r\n0123456789\r\n000\r\n\r\nGET /",
		"3 \r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "3\r\nabcd\r\n0\r\n\r\n", "0\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		var whole, pieces chunkScan
		n, ok := whole.advance(b)
		m, okPieces := 0, true
		for m < n && okPieces && !pieces.done() {
			var k int
			k, okPieces = pieces.advance(b[m:min(len(b), m+int(piece)+1)])
			m += k
		}
		if whole.done() != pieces.done() || (whole.done() && m != n) {
			t.Fatalf("%q: %d %t at once, %d %t in pieces", b, n, ok, m, okPieces)
		}
		if !ok {
			wantSpoiled(t, b[:n], &whole)
		}
		if !whole.done() || !ok {
			return
		}
		head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		rest := bufio.NewReaderSize(io.MultiReader(bytes.NewReader([]byte(head)), bytes.NewReader(b)), len(head)+len(b)+16)
		req, err := http.ReadRequest(rest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // net/http may refuse more, such as trailer fields that it forbids
		}
		if left, _ := io.ReadAll(rest); len(left) != len(b)-n {
			t.Errorf("%q: ends at %d here, at %d in net/http", b, n, len(b)-len(left))
		}
	})
}

// wantSpoiled checks that net/http refuses what a wrong byte is replaced by, whatever came before.
func wantSpoiled(t *testing.T, good []byte, s *chunkScan) {
	t.Helper()
	head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + string(good) + s.spoiler())))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, req.Body)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, spoiled in state %d: %v; want a refusal that needs no more bytes", good, s.state, err)
	}
}
