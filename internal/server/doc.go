// Package server accepts connections and serves HTTP/1.1 and HTTP/2 from one handler, with net/http underneath.
//
// # Usage
//
//	srv, err := server.New(server.Options{Listen: []string{"127.0.0.1:8080"}}, handler)
//	err = srv.Start()        // binds every address or none
//	err = srv.Drain(ctx)     // stops accepting, finishes requests, cuts at the limit
//
// What net/http leaves open, this package closes. Each HTTP/1 connection is a wrapper that knows where every message
// begins and ends: it checks heads and chunked framing strictly, hands net/http exactly one message at a time, and
// answers 400, 408, 431 or 501 itself where a request is ambiguous, late, too large, or coded in an unknown way.
// It bounds silence and not size: a body that keeps moving, in either direction, is never cut.
//
// # The hit path
//
// With Options.Hits, on Linux, connections of plain HTTP/1.1 rest with a loop, many of them on one goroutine, which looks at what arrives before
// net/http does. A complete GET or HEAD head without anything unusual goes to the [HitSource]; if that has the answer in memory, it is written at
// once and net/http never learns of the request, nor of the connection. Everything else reaches net/http byte for byte, so that there is one place for
// unusual input, bodies, upgrades and errors; when net/http wants to wait for the next request, the connection rests with the loop again. Requests that
// came behind one for net/http, in the same piece, stay on its path.
//
// A connection belongs to the loop or to net/http's goroutine, never to both (owner). The steps of a turn: readTurn reads, answer parses and asks the source,
// proceed writes; handOver gives the connection away, await takes it back.
//
// What holds, and the test that says so:
//
//  1. Both paths give the same bytes and report the same events (TestBothPathsAgree, FuzzPaths).
//  2. Bytes of a request under way are never taken for a request (TestHitsBetweenOthers, FuzzScanHead, FuzzChunkScan).
//  3. Idle, header and write limits hold across hits (TestIdleTimeoutAcrossHits, TestHeadInPieces, TestHitToStalledReader).
//  4. A connection closes behind an answer, not within it (TestCloseDuringHit, TestDrainUnderHits).
//  5. A hit allocates nothing (TestHitAllocations).
//  6. No connection is forgotten between its owners, and nothing is left of one that is over (TestOwners, TestManyConnections, TestLoopGoesOn,
//     TestTorture, TestTortureEnds).
//  7. A worker's handler gets the request, and its client the bytes, that net/http would give (TestDirectRequest, TestDirectAgrees).
//  8. A request's context ends with its client or its connection, whoever runs the handler (TestDirectClientGone, TestCutEndsContext, TestEndWithRequest).
//  9. A source or handler that panics ends its connection and nothing else (TestSourceFault).
//  10. Go's poller hears nothing of a connection until somebody waits for it; its descriptors end with it (TestSocketClose, TestSocketDescriptors).
//
// Sockets are read and written without announcing the call to Go's scheduler (rawIO), since it cannot block; large bodies that are asked for often are sent
// from copies in memory files (twins), which the kernel need not copy again.
//
// # Concurrency
//
// A Server is safe for concurrent use. Each listener has one accepting goroutine, each processor one loop, each connection that net/http
// has seen one goroutine of its, each request on a worker one while it lasts; one goroutine watches the loops; TLS handshakes run on their own
// goroutine so that a slow one delays nobody. All of them end with Drain or Close. A HitSource is called on the loops: one that waits holds up
// every connection of its loop.
//
// # Errors
//
// New reports settings that cannot work, Start what could not be bound or loaded, Drain what had to be cut
// ([ErrCut]). Err delivers a listener's permanent failure. What clients do wrong is counted ([Stats]), answered, and never
// returned.
//
// # RFC coverage
//
// RFC 9112 §2.2 (line endings, empty lines before a request), §3.2 (Host), §5.1 and §5.2 (no space before the colon, no line
// folding), §6.1 and §6.3 (Transfer-Encoding and Content-Length never together), §7.1 (chunked, with its trailer section), §9.6 and §9.8
// (closing). RFC 9113 is net/http's.
//
// # Limits
//
// A head may have Options.MaxHeaderBytes, of which a connection holds at most that much; a chunk's line may have 4 KiB, a trailer
// section what net/http's reader takes (4 KiB). A connection that rests with a loop holds no buffer of ours; one for
// which net/http or a slow reader had to wait has two descriptors until it closes. A head above 8 KiB takes the ordinary path. HTTP/2 streams are guarded per 16 KiB, HTTP/1 connections per byte.
package server
