// Package hugepages makes Go's heap lie in huge pages where the system gives them to those who ask.
//
// A processor knows the addresses of about two thousand pages. Records of a large cache are in more pages of 4 KiB than that, so that each look-up, and each body
// that the kernel copies, begins with walks through the page table; among a million records of 1 KiB a look-up takes a third less time with pages of 2 MiB.
// Many systems use them everywhere ("always"), some only where a program asks ("madvise"), and Go's runtime does not ask.
//
// [Advise] asks for the heap's next so many bytes. Go's heap takes the lowest free addresses, so that it is enough to have been there once: a piece is allocated,
// advised, and freed before anything has touched it. It costs a collection, and no memory but the runtime's own tables, a thousandth of the
// piece. Call it at the start, before the heap is large. It does nothing where
// the system has another mode, where it would not give twice as much address space (strict overcommit, ulimit -v), where GODEBUG has disablethp=1, for less than [Least], and
// on systems other than Linux. Nothing depends on it but speed.
package hugepages

// Least is the smallest piece worth advice, in bytes: with fewer records the processor knows enough pages.
const Least = 64 << 20
