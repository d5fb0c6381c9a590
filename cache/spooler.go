package cache

import "io"

// Spooler is implemented by stores that can take a body in while it arrives, so that a fill's memory is bounded whatever the size of
// its body.
type Spooler interface {
	// NewSpool makes an empty spool, which the caller closes.
	NewSpool() (Spool, error)
}

// Spool is a body on its way into a store: one fill writes it, any number of readers read meanwhile. ReadAt and Size are safe for
// concurrent use with each other and with the rest; Write, Body and Close are for the fill alone.
type Spool interface {
	// Write appends. An error means that the store has no room: the fill goes on without storing.
	io.Writer
	// ReadAt reads what was written before; io.EOF means that there is no more yet.
	io.ReaderAt
	// Size is the number of bytes written so far.
	Size() int64
	// Body ends writing and returns the whole as a body. Put takes it over without a copy; it can be opened until Close even if
	// nothing was put.
	Body() (Body, error)
	// Close gives the spool up: what no Put took over is removed. Call it when the last reader that uses ReadAt is done. Readers that
	// opened the body are not disturbed. The second call does nothing.
	Close() error
}
