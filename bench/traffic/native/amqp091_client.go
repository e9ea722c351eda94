// amqp091-go: a publisher with `window` publishes at a time, or a consumer; see __init__.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const window = 200

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func waitForStart() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func main() {
	role, host, port, queue, directory := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[6]
	seconds, err := strconv.ParseFloat(os.Args[5], 64)
	check(err)
	connection, err := amqp.Dial("amqp://guest:guest@" + host + ":" + port + "/")
	check(err)
	channel, err := connection.Channel()
	check(err)
	if role == "publish" {
		publish(channel, queue, time.Duration(seconds*float64(time.Second)), directory)
	} else {
		consume(channel, queue)
	}
	check(connection.Close())
}

func publish(channel *amqp.Channel, queue string, duration time.Duration, directory string) {
	text, err := os.ReadFile(filepath.Join(directory, "sizes.txt"))
	check(err)
	tails, err := os.ReadFile(filepath.Join(directory, "tails.bin"))
	check(err)
	var sizes []int
	for _, line := range strings.Fields(string(text)) {
		size, err := strconv.Atoi(line)
		check(err)
		sizes = append(sizes, size)
	}
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, window))
	sent := make(chan time.Time, window)
	done := make(chan []float64)
	ctx := context.Background()
	waitForStart()
	go func() {
		// The library gives the confirms one by one, in the order of the publishes.
		var latencies []float64
		for start := range sent {
			if confirm := <-confirms; confirm.Ack {
				latencies = append(latencies, float64(time.Since(start).Nanoseconds())/1e3)
			}
		}
		done <- latencies
	}()
	published := 0
	for end := time.Now().Add(duration); time.Now().Before(end); published++ {
		tail := tails[:sizes[published%len(sizes)]-40]
		head := fmt.Sprintf("%016x%016x", published, 0)
		digest := crc32.Update(crc32.ChecksumIEEE(tail), crc32.IEEETable, []byte(head))
		body := append([]byte(head+fmt.Sprintf("%08x", digest)), tail...)
		message := amqp.Publishing{
			ContentType:  "application/octet-stream",
			DeliveryMode: amqp.Persistent,
			MessageId:    fmt.Sprintf("%032x", published),
			Timestamp:    time.Now(),
			Headers: amqp.Table{
				"traceparent": fmt.Sprintf("00-%032x-%016x-01", published, published),
				"tenant":      fmt.Sprintf("tenant-%d", published%5000),
				"attempt":     int32(1),
			},
			Body: body,
		}
		if published%3 == 0 {
			message.CorrelationId = message.MessageId
		}
		sent <- time.Now() // waits while the window is full
		check(channel.PublishWithContext(ctx, "", queue, false, false, message))
	}
	close(sent)
	latencies := <-done
	check(channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte("end")}))
	<-confirms
	sort.Float64s(latencies)
	at := func(percent int) float64 { return latencies[(len(latencies)*percent+99)/100-1] }
	check(json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"published": published, "confirmed": len(latencies), "p50_us": at(50), "p99_us": at(99),
	}))
}

func consume(channel *amqp.Channel, queue string) {
	check(channel.Qos(window, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	check(err)
	received, corrupt, disordered := 0, 0, 0
	waitForStart()
	for delivery := range deliveries {
		body := delivery.Body
		check(delivery.Ack(false))
		if len(body) == 3 {
			break
		}
		digest := crc32.Update(crc32.ChecksumIEEE(body[40:]), crc32.IEEETable, body[:32])
		claimed, _ := strconv.ParseUint(string(body[32:40]), 16, 32)
		number, _ := strconv.ParseUint(string(body[:16]), 16, 64)
		if uint32(claimed) != digest {
			corrupt++
		} else if number != uint64(received) {
			disordered++
		}
		received++
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]int{
		"received": received, "corrupt": corrupt, "disordered": disordered,
	}))
}
