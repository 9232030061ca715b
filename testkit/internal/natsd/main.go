// Command natsd is a NATS server with JetStream as its own process, for tests
// that kill it. It takes the settings that AX asks of an existing NATS and ends
// on SIGTERM.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	dir := flag.String("dir", "", "where the streams are kept")
	listen := flag.String("listen", "", "host:port")
	token := flag.String("token", "", "what clients have to show")
	sync := flag.Bool("sync", true, "sync every message before it is acknowledged")
	flag.Parse()
	if err := run(*dir, *listen, *token, *sync); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(dir, listen, token string, sync bool) error {
	end := make(chan os.Signal, 1) // from before anybody is told that it is ready
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	o := &server.Options{
		ServerName: "natsd", Host: host, NoSigs: true, Authorization: token, JetStream: true, StoreDir: dir, SyncAlways: sync,
		JetStreamMaxStore: 64 << 30, JetStreamMaxMemory: 1 << 30,
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("not ready on %s", listen)
	}
	fmt.Println("natsd: ready on", s.Addr())
	<-end
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
