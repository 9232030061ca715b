package workers

import (
	"errors"
	"strings"
	"testing"

	"github.com/ax-scheduler/ax/events"
)

// TestNumbersThatNoEventCarriesAreRefused: they never come as far as a decision.
func TestNumbersThatNoEventCarriesAreRefused(t *testing.T) {
	r := &Rules{Liveness: NewLiveness()}
	claims := func(b string) error { _, err := r.HandleClaims("g", []byte(b)); return err }
	reports := func(b string) error { _, err := r.HandleReports("g", []byte(b)); return err }
	beat := func(b string) error { _, err := r.HandleBeat("", []byte(b)); return err }
	for body, handle := range map[string]func(string) error{
		`{"worker":"w","incarnation":#,"claims":[]}`: claims,
		`{"worker":"w","beat":#,"claims":[]}`:        claims,
		`{"worker":"w","runLease":#,"claims":[]}`:    claims,
		`{"worker":"w","claims":[{"instance":"i","attempt":#,"offer":1,"nonce":"` + strings.Repeat("n", 20) + `"}]}`: claims,
		`{"worker":"w","claims":[{"instance":"i","attempt":1,"offer":#,"nonce":"` + strings.Repeat("n", 20) + `"}]}`: claims,
		`{"worker":"w","incarnation":#,"reports":[]}`:                                                                reports,
		`{"worker":"w","reports":[{"instance":"i","attempt":#,"outcome":"succeeded"}]}`:                              reports,
		`{"worker":"w","reports":[{"instance":"i","attempt":1,"offer":#,"outcome":"succeeded"}]}`:                    reports,
		`{"worker":"w","reports":[{"instance":"i","attempt":1,"retryAfter":#,"outcome":"failed"}]}`:                  reports,
		`{"worker":"w","incarnation":#,"number":1}`:                                                                  beat,
		`{"worker":"w","number":#}`: beat,
		`{"worker":"w","number":1,"attempts":[{"instance":"i","attempt":#,"offer":1}]}`: beat,
	} {
		for _, n := range []string{"-1", "-9223372036854775808", "9007199254740992", "9223372036854775807"} {
			if err := handle(strings.Replace(body, "#", n, 1)); !errors.Is(err, events.ErrRequest) {
				t.Errorf("%s with %s: %v", body, n, err)
			}
		}
		if err := handle(strings.Replace(body, "#", "1", 1)); err != nil {
			t.Errorf("%s with 1: %v", body, err)
		}
	}
}
