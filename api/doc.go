// Package api is the HTTP side of a server: health, metrics, and the read side
// of /api/v1. It decides nothing and writes nothing.
//
//	A1  A request is answered only if its Host is one that the server was given,
//	    and its Origin, if it has one, is the server's own: pages of other sites
//	    get nothing, whatever a browser can reach.
//	A2  Everything but /healthz and /readyz needs the token.
//	A3  A read shows at least what was folded when it came, and with at-least=SEQ
//	    at least everything up to that sequence. Ax-Cursor says what it shows;
//	    Ax-Stale says why it may be older than asked for.
//	A4  Lists are bounded: limit, 100 unless said, at most 10,000.
package api
