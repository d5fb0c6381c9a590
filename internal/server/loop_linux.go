package server

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop answers hits for many connections on one goroutine. The kernel tells it which of the connections that rest between two requests have
// something to read, and it reads, asks the source and writes without ever waiting. Whatever it cannot answer it hands over, with the connection, to a worker
// or to net/http's goroutine for that connection, and gets the connection back when they are to wait for the next request.
//
// Go's poller, which serves everybody else, does not know the connections ([socket]). The loop has a descriptor of its own for all of them (epoll), which
// Go's poller watches: so the loop waits like any goroutine that reads a socket, and others have their turn.
type loop struct {
	server *Server
	file   *os.File // the epoll instance
	raw    syscall.RawConn
	fd     int
	bell   int // an eventfd that is always readable; ring makes it news
	seats  seats

	late   func(fd uintptr) // rounds, made once
	worked atomic.Uint64    // rounds in which there was news
	seen   uint64           // of worked; the watch's

	mu      sync.Mutex // held by who works; guards following
	events  [loopEvents]syscall.EpollEvent
	buf     []byte      // lent to the connection that has its turn
	scratch *hitScratch // as buf
	again   []*conn     // have used up their turn and go on after the others
	now     time.Time   // of the present round
}

const (
	// loopEvents is how many connections one round takes.
	loopEvents = 128
	// loopRound is after how many turns other goroutines get theirs: about a millisecond.
	loopRound = 256
	// turnBytes is how much of a body, and turnHits how many answers, one connection gets before others have their turn.
	turnBytes = 1 << 20
	turnHits  = 32
)

// watched is what the loop wants to hear of a connection: each time that bytes arrive, that the client is through, and that there is
// room to write again.
const watched = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// startLoops starts one loop for each processor.
func (s *Server) startLoops() error {
	if s.o.Hits == nil {
		return nil
	}
	s.watch = newWatch()
	for range runtime.GOMAXPROCS(0) {
		l, err := newLoop(s)
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
		s.looping.Go(l.run)
	}
	s.looping.Go(func() { s.watch.run(s.life, s.loops) })
	return nil
}

func newLoop(s *Server) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("server: epoll: %w", err)
	}
	l := &loop{server: s, fd: fd, buf: newBuffer(), scratch: newHitScratch()}
	l.late = func(fd uintptr) { l.rounds(fd) }
	err = unix.SetNonblock(fd, true) // so that Go's poller takes it
	l.file = os.NewFile(uintptr(fd), "epoll")
	if err == nil {
		l.raw, err = l.file.SyscallConn()
	}
	if err == nil {
		l.bell, err = unix.Eventfd(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		err = l.control(unix.EPOLL_CTL_ADD, l.bell, 0)
	}
	if err != nil {
		_ = l.file.Close() // the error at hand says more
		if l.bell > 0 {
			_ = unix.Close(l.bell) // as above
		}
		return nil, fmt.Errorf("server: epoll: %w", err)
	}
	return l, nil
}

// control adds or removes a descriptor, or makes its state news. The serial number comes back with its events.
func (l *loop) control(op, fd int, serial int32) error {
	ev := unix.EpollEvent{Events: watched, Fd: int32(fd), Pad: serial}
	return unix.EpollCtl(l.fd, op, fd, &ev)
}

// ring makes Go's poller call the loop again. To make the bell's state news by control would not do: as long as an earlier ring
// waits behind other news in the kernel's list, that wakes nobody.
func (l *loop) ring() {
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.bell), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one)) // never full: 2^64 rings
}

// run serves until stop is called.
func (l *loop) run() {
	_ = l.raw.Read(l.rounds) // ends with the file
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = unix.Close(l.bell)
	for _, c := range l.seats.all() {
		c.leaveLoop()
	}
}

func (l *loop) stop() { _ = l.file.Close() }

// rounds takes turns until nothing is left to do; Go's poller calls it again when there is.
func (l *loop) rounds(uintptr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for turns := 0; turns < loopRound; {
		n := l.collect()
		if n == 0 && len(l.again) == 0 {
			return false
		}
		turns += n + len(l.again)
		l.worked.Add(1)
		l.server.watch.stir()
		l.round(n)
	}
	l.ring() // what is left must not wait for more to come
	return false
}

// collect asks the kernel what is new.
func (l *loop) collect() int {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.fd), uintptr(unsafe.Pointer(&l.events[0])), loopEvents, 0, 0, 0)
		switch errno {
		case 0:
			l.now = time.Now()
			return int(n)
		case syscall.EINTR: // what is there would not be news again
		default:
			return 0
		}
	}
}

func (l *loop) round(n int) {
	again := l.again
	l.again = nil
	for i := range l.events[:n] {
		ev := &l.events[i]
		if c := l.seats.at(int(ev.Fd)); c != nil && c.serial == ev.Pad { // else the news is of one that had the descriptor before
			c.happened(ev.Events)
		}
	}
	for _, c := range again {
		if c.queued { // else it had its turn by an event
			c.takeTurn()
		}
	}
}

// seats finds connections by their descriptor. A descriptor is used again only after its connection has left. Safe for concurrent use.
type seats struct {
	mu   sync.Mutex // guards changes
	list atomic.Pointer[[]atomic.Pointer[conn]]
}

func (s *seats) at(fd int) *conn {
	if list := s.list.Load(); list != nil && fd < len(*list) {
		return (*list)[fd].Load()
	}
	return nil
}

func (s *seats) take(fd int, c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list.Load()
	if list == nil || fd >= len(*list) {
		list = s.growLocked(fd)
	}
	(*list)[fd].Store(c)
}

// growLocked makes room for fd. Readers of the old list may miss who takes a seat later, but nobody takes one there.
func (s *seats) growLocked(fd int) *[]atomic.Pointer[conn] {
	grown := make([]atomic.Pointer[conn], max(64, 2*fd))
	if old := s.list.Load(); old != nil {
		for i := range *old {
			grown[i].Store((*old)[i].Load())
		}
	}
	s.list.Store(&grown)
	return &grown
}

func (s *seats) leave(fd int, c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.list.Load(); list != nil && fd < len(*list) {
		(*list)[fd].CompareAndSwap(c, nil)
	}
}

func (s *seats) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []*conn
	if list := s.list.Load(); list != nil {
		for i := range *list {
			if c := (*list)[i].Load(); c != nil {
				open = append(open, c)
			}
		}
	}
	return open
}
