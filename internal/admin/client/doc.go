// Package client asks the admin API of a running proxy, for the command line.
//
// # Usage
//
//	where, err := client.Locate(client.Where{Config: "swrproxy.yaml"})
//	ans, err := client.New(where).Purge(ctx, admin.PurgeRequest{Tags: []string{"product-7"}})
//	client.WritePurge(os.Stdout, &ans)
//
// # Concurrency
//
// A Client is safe for concurrent use.
//
// # Errors
//
// A refusal comes back as *[Refused] with what the proxy said. A proxy that cannot be reached is an error that names its address.
package client
