// Package ax puts the rooms of AX together: a Server is an embedded or an
// existing NATS, one shard that follows and leads, and its views; a worker runs
// what it offers. Commands and embedders start here.
//
// Nothing is decided in this package. It opens connections, folders and
// goroutines, and closes them in the order that loses nothing: workers, shard,
// clients, NATS, views.
package ax
