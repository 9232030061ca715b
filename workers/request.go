package workers

import (
	"fmt"

	"github.com/ax-scheduler/ax/events"
)

// maxNumber bounds the numbers of a request: what JSON carries exactly everywhere.
const maxNumber = 1<<53 - 1

// number is a number of a request.
type number struct {
	name string
	n    int64
}

// inRange checks numbers of a request. One that no event could carry must not come as
// far as a decision.
func inRange(numbers ...number) error {
	for _, x := range numbers {
		if x.n < 0 || x.n > maxNumber {
			return fmt.Errorf("%w: %s is %d, want 0 to %d", events.ErrRequest, x.name, x.n, int64(maxNumber))
		}
	}
	return nil
}
