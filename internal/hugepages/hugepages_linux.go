package hugepages

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"
)

// enabled says when the system uses huge pages, the present mode in brackets.
const enabled = "/sys/kernel/mm/transparent_hugepage/enabled"

const pageSize = 2 << 20

// Advise is described in the package's documentation. It returns how many bytes the advice is for.
func Advise(n int64) int64 {
	if !wanted() {
		return 0
	}
	n = min(n, most())
	if n < Least || !reservable(n) {
		return 0
	}
	advised := advise(n)
	debug.FreeOSMemory()
	return advised
}

// wanted tells whether the system takes advice, and nobody has told Go not to use huge pages.
func wanted() bool {
	mode, err := os.ReadFile(enabled)
	return err == nil && strings.Contains(string(mode), "[madvise]") && !strings.Contains(os.Getenv("GODEBUG"), "disablethp=1")
}

// most is how much may be reserved without harm: half of the machine's memory, three quarters of Go's memory limit.
func most() int64 {
	n := debug.SetMemoryLimit(-1) / 4 * 3
	if machine, err := memlimit.FromSystem(); err == nil {
		n = min(n, (int64(machine)-spare)/2) // what reservable asks for is no more than there is
	}
	return n
}

// spare is what the runtime may need of address space beside the piece: its tables for it, and arenas of 64 MiB that it reserves whole.
const spare = 512 << 20

// reservable tells whether the system would give so much address space, and as much again: Go's runtime ends the process if it does not get what it needs.
func reservable(n int64) bool {
	b, err := unix.Mmap(-1, 0, int(2*n+spare), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return err == nil && unix.Munmap(b) == nil
}

// advise takes a piece of the heap, of which nothing is touched, and gives it back.
//
//go:noinline
func advise(n int64) int64 {
	piece := make([]uint64, n/8)
	from := uintptr(unsafe.Pointer(unsafe.SliceData(piece)))
	skip := -from % pageSize
	size := (uintptr(n) - skip) / pageSize * pageSize
	err := unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(piece)), skip)), size), unix.MADV_HUGEPAGE)
	runtime.KeepAlive(piece)
	if err != nil {
		return 0
	}
	return int64(size)
}
