package definition

import "fmt"

// budget bounds what a file may become: a few aliases can stand for millions of
// values, and one long text may be named a thousand times.
type budget struct {
	nodes, bytes int
	reread       int // bytes read again to locate faults of syntax
}

// maxReread bounds what is read again of a file; YAML takes about half a second a
// MiB. It is enough for a document of 100 kB, or many small ones.
const maxReread = 2 << 20

func (b *budget) spend(bytes int) error {
	b.nodes++
	b.bytes += bytes
	switch {
	case b.nodes > MaxNodes:
		return fmt.Errorf("the file has more than %d values, aliases counted as often as they are used; split it", MaxNodes)
	case b.bytes > MaxExpanded:
		return fmt.Errorf("the file has more than %d bytes of text, aliases counted as often as they are used; split it", MaxExpanded)
	}
	return nil
}

// passed says whether a bound was passed, after which nothing fits any more.
func (b *budget) passed() bool { return b.nodes > MaxNodes || b.bytes > MaxExpanded }
