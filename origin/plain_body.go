package origin

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// plainBody is the body of a response, and the exchange's hold on its connection: whoever ends it first decides whether the connection is kept.
//
// Read is for one goroutine at a time; Close and cut are safe at any time.
type plainBody struct {
	c       *plainConn
	src     io.Reader   // net/http's own body, which is never closed: that would read on; nil for one of left bytes
	left    int64       // bytes to come, or untilClose
	unwatch func() bool // stops the watch on the caller's context; nil if that can not end
	last    bool        // the connection carries no further exchange
	done    atomic.Bool
}

// watch has cut called when ctx ends.
func (b *plainBody) watch(ctx context.Context) {
	if ctx.Done() != nil {
		b.unwatch = context.AfterFunc(ctx, b.cut)
	}
}

// Read reads from the connection, which is free for the next exchange at io.EOF.
func (b *plainBody) Read(p []byte) (int, error) {
	if b.done.Load() {
		return 0, net.ErrClosed
	}
	n, err := b.next(p)
	if err == io.EOF {
		b.end()
	}
	return n, err
}

// whole tells whether what is left of the body is in the connection's buffer.
func (b *plainBody) whole() bool {
	return b.src == nil && b.left >= 0 && b.left <= int64(b.c.br.Buffered())
}

// untilClose is a body that ends with the connection.
const untilClose = -1

func (b *plainBody) next(p []byte) (int, error) {
	switch {
	case b.src != nil:
		return b.src.Read(p)
	case b.left == untilClose:
		return b.c.br.Read(p)
	}
	n, err := b.c.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// end gives back a connection whose response is whole. Bytes behind it were not asked for.
func (b *plainBody) end() {
	if b.done.Swap(true) {
		return
	}
	b.forget()
	if b.last || b.c.br.Buffered() > 0 {
		b.c.conn.Close()
		return
	}
	b.c.plain.put(b.c)
}

// Close closes the connection, unless the response was read to its end.
func (b *plainBody) Close() error {
	if !b.done.Swap(true) {
		b.forget()
		b.c.conn.Close()
	}
	return nil
}

// cut closes the connection under a reader, because the caller's context ended.
func (b *plainBody) cut() {
	if !b.done.Swap(true) {
		b.c.conn.Close()
	}
}

func (b *plainBody) forget() {
	if b.unwatch != nil {
		b.unwatch()
	}
}
