package hugepages

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// What the heap grows by after the advice lies where the system was advised: that is the runtime's choice, and all that the package is for.
func TestHeapFollowsAdvice(t *testing.T) {
	if !wanted() {
		t.Skip("the system does not take advice about huge pages")
	}
	const piece, pieces = 152 << 10, 1000
	before := resident(t)
	advised := Advise(2 * Least)
	if advised < 2*Least-2*pageSize {
		t.Fatalf("advice for %d bytes was for %d", 2*Least, advised)
	}
	if grown := resident(t) - before; grown > Least/8 {
		t.Errorf("the advice alone took %d bytes of memory", grown)
	}
	var kept [][]byte
	for range pieces {
		kept = append(kept, make([]byte, piece))
	}
	ranges := advisedRanges(t)
	within := 0
	for _, b := range kept {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		for _, r := range ranges {
			if r[0] <= at && at < r[1] {
				within++
			}
		}
	}
	runtime.KeepAlive(kept)
	if limit := min(pieces, int(advised)/piece); within < limit*3/4 {
		t.Errorf("%d of %d pieces are in huge pages, want most of %d", within, pieces, limit)
	}
}

func TestTooLittle(t *testing.T) {
	if n := Advise(Least - 1); n != 0 {
		t.Errorf("advised %d bytes for less than the least", n)
	}
}

// advisedRanges are the mappings of this process that may have huge pages.
func advisedRanges(t *testing.T) (ranges [][2]uintptr) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r [2]uintptr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "%x-%x ", &r[0], &r[1]); err == nil {
			continue
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && strings.Contains(flags+" ", " hg ") {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// resident is how much memory this process takes, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
