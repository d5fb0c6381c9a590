package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// No request fails while a server under load drains: whoever is on a connection learns from an answer that it ends.
func TestDrainUnderLoad(t *testing.T) {
	s := start(t, Options{DrainIdle: 300 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	var answered atomic.Int64
	enough := make(chan struct{})
	results := make(chan error, 16)
	for range cap(results) {
		c := dial(t, s)
		go func() { results <- askUntilClosed(c, func() { closeAt(answered.Add(1), 1000, enough) }) }()
	}
	<-enough
	drain(t, s)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("a request failed: %v", err)
		}
	}
}

func TestDrainFinishesRequests(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, Options{DrainIdle: -1}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		_, _ = io.WriteString(w, "late but whole")
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-began
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	<-s.stopping
	close(goOn)
	if _, got := answer(t, bufio.NewReader(c)); got != "late but whole" {
		t.Errorf("got %q", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestDrainCutsAtTheLimit(t *testing.T) {
	began := make(chan struct{})
	s := start(t, Options{DrainIdle: -1, DrainTimeout: 50 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-began
	err := s.Drain(context.Background())
	if cut, ok := errors.AsType[*ErrCut](err); !ok || cut.Connections != 1 {
		t.Errorf("drain: %v", err)
	}
}

// A hijacked connection is busy until its handler ends it.
func TestDrainWaitsForHijacked(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, Options{DrainIdle: -1}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		close(began)
		<-goOn
		_, _ = io.WriteString(nc, "bye")
		_ = nc.Close()
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-began
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	<-s.stopping
	close(goOn)
	if b, err := io.ReadAll(c); err != nil || string(b) != "bye" {
		t.Errorf("got %q, %v", b, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A connection that is cut before a loop adopts it is closed by then: its loop relies on its descriptor.
func TestCutBeforeAdoption(t *testing.T) {
	l := newLinks(0)
	near, far := net.Pipe()
	defer far.Close()
	l.add(near)
	l.cut()
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want the end", err)
	}
}
