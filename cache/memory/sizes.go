package memory

// sizes divides a budget. Immutable after newSizes.
type sizes struct {
	max      int64 // all of it
	main     int64 // ristretto's share
	window   int64 // for records on probation; a larger record gets none
	arrivals int64 // not settled before Put helps
	tight    int64 // held before frequencies count
	counters int64 // of the frequency sketch
}

const (
	// bytesPerCounter is how much budget one counter of the frequency sketch stands for. Ristretto advises ten counters for
	// each record that fits; with records of 2.5 KiB that is one for 256 bytes.
	bytesPerCounter = 256
	// sketchBytes is what ristretto allocates for a counter: four rows of four bits, and ten bits of Bloom filter, both
	// rounded up to a power of two.
	sketchBytes = 4
	// minCounters keeps small tiers from ageing their frequencies after a few hundred reads.
	minCounters = 1 << 14
	maxCounters = 1 << 26
)

func newSizes(budget int64) sizes {
	z := sizes{max: budget, window: budget / 8, arrivals: budget / 8}
	z.counters = min(max(budget/bytesPerCounter, minCounters), maxCounters)
	z.main = budget - z.window - min(z.counters*sketchBytes, budget/32)
	z.tight = z.main / 2 // time enough to learn them
	return z
}
