package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/swrproxy/swrproxy/cache/disk"
)

// ErrDamaged is returned by CheckStore when it found something.
var ErrDamaged = errors.New("the store is damaged; a proxy that opens it drops what is named above")

// CheckStore verifies a disk tier that no process has open and writes to w what it found. It changes nothing. The error is ErrDamaged, or
// what kept it from looking.
func CheckStore(ctx context.Context, w io.Writer, dir string) error {
	rep, err := disk.Check(ctx, dir)
	if err != nil {
		return err
	}
	for _, problem := range rep.Problems {
		fmt.Fprintln(w, problem)
	}
	fmt.Fprintf(w, "%d records, %s of bodies, %d files without a record\n", rep.Records, humanize.IBytes(uint64(rep.Bytes)), rep.Orphans)
	if len(rep.Problems) > 0 {
		return ErrDamaged
	}
	return nil
}

// CompactStore rewrites the database of a disk tier that no process has open, and writes the sizes to w.
func CompactStore(w io.Writer, dir string) error {
	before, after, err := disk.Compact(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s before, %s after\n", dir, humanize.IBytes(uint64(before)), humanize.IBytes(uint64(after)))
	return nil
}
