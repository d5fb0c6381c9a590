package server

// growStack makes room on the stack of a goroutine that has hardly begun. net/http starts one for each request of HTTP/2, on a stack that the handler would
// outgrow several times; each time everything on it is copied and looked through, which took a quarter of the CPU of a hit.
//
//go:noinline
func growStack() byte {
	var room [handlerStack]byte
	return room[len(room)-1-int(nothing)]
}

// handlerStack is about what an answer from the cache takes, in bytes.
const handlerStack = 6 << 10

// nothing is 0, of which the compiler does not know.
var nothing byte
