// Drives apache/rocketmq-clients for Go, which speaks gRPC: client ENDPOINT NAME tls|plain
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

type request struct {
	ID         int               `json:"id"`
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Body       string            `json:"body"`
	Tag        *string           `json:"tag"`
	Keys       *string           `json:"keys"`
	Properties map[string]string `json:"properties"`
	Order      *string           `json:"order"`
	AfterMs    int               `json:"after_ms"`
	Commit     bool              `json:"commit"`
	Consumer   string            `json:"consumer"`
	Group      string            `json:"group"`
	Expression string            `json:"expression"`
	SQL        bool              `json:"sql"`
	Simple     bool              `json:"simple"`
	Fail       map[string]int    `json:"fail"`
}

type line = map[string]any

type stopping func() error

const hidden = 10 * time.Second

var (
	endpoint  = os.Args[1]
	out       = os.Stdout
	writing   sync.Mutex
	opening   sync.Mutex
	producers = map[string]rmq.Producer{}
	consumers sync.Map
)

func main() {
	os.Stdout = os.Stderr // libraries write there too
	rmq.EnableSsl = os.Args[3] == "tls"
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	for in.Scan() {
		var asked request
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		go answer(&asked)
	}
}

func answer(asked *request) {
	result, err := serve(asked)
	if err != nil {
		tell(line{"id": asked.ID, "error": err.Error()})
	} else {
		tell(line{"id": asked.ID, "ok": result})
	}
}

func tell(told line) {
	text, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	fmt.Fprintf(out, "%s\n", text)
}

func serve(asked *request) (any, error) {
	switch asked.Do {
	case "send":
		return send(asked)
	case "transaction":
		return transaction(asked)
	case "consume":
		return true, consume(asked)
	case "stop":
		stop, _ := consumers.LoadAndDelete(asked.Consumer)
		return true, stop.(stopping)()
	case "quit":
		opening.Lock()
		defer opening.Unlock()
		for _, producer := range producers {
			_ = producer.GracefulStop()
		}
		return true, nil
	}
	return nil, fmt.Errorf("this client cannot %s", asked.Do)
}

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      endpoint,
		ConsumerGroup: group,
		Credentials:   &credentials.SessionCredentials{},
	}
}

// Sending

func producing(topic string) (rmq.Producer, error) {
	opening.Lock()
	defer opening.Unlock()
	if found, ok := producers[topic]; ok {
		return found, nil
	}
	made, err := rmq.NewProducer(config(""), rmq.WithTopics(topic),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{
			Check: func(message *rmq.MessageView) rmq.TransactionResolution {
				if message.GetProperties()["ends"] == "commit" {
					return rmq.COMMIT
				}
				return rmq.ROLLBACK
			},
		}))
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	producers[topic] = made
	return made, nil
}

func message(asked *request) (*rmq.Message, error) {
	body, err := base64.StdEncoding.DecodeString(asked.Body)
	if err != nil {
		return nil, err
	}
	made := &rmq.Message{Topic: asked.Topic, Body: body}
	if asked.Tag != nil {
		made.SetTag(*asked.Tag)
	}
	if asked.Keys != nil {
		made.SetKeys(strings.Split(*asked.Keys, " ")...)
	}
	if asked.Order != nil {
		made.SetMessageGroup(*asked.Order)
	}
	if asked.AfterMs > 0 {
		made.SetDelayTimestamp(time.Now().Add(time.Duration(asked.AfterMs) * time.Millisecond))
	}
	for name, value := range asked.Properties {
		made.AddProperty(name, value)
	}
	return made, nil
}

func send(asked *request) (any, error) {
	producer, err := producing(asked.Topic)
	if err != nil {
		return nil, err
	}
	made, err := message(asked)
	if err != nil {
		return nil, err
	}
	receipts, err := producer.Send(context.Background(), made)
	if err != nil {
		return nil, err
	}
	return line{"id": receipts[0].MessageID}, nil
}

func transaction(asked *request) (any, error) {
	producer, err := producing(asked.Topic)
	if err != nil {
		return nil, err
	}
	made, err := message(asked)
	if err != nil {
		return nil, err
	}
	begun := producer.BeginTransaction()
	receipts, err := producer.SendWithTransaction(context.Background(), made, begun)
	if err != nil {
		return nil, err
	}
	if asked.Properties["ends"] == "" { // else the server asks
		end := begun.RollBack
		if asked.Commit {
			end = begun.Commit
		}
		if err := end(); err != nil {
			return nil, err
		}
	}
	return line{"id": receipts[0].MessageID}, nil
}

// Receiving

func consume(asked *request) error {
	kind := rmq.TAG
	if asked.SQL {
		kind = rmq.SQL92
	}
	wanted := map[string]*rmq.FilterExpression{
		asked.Topic: rmq.NewFilterExpressionWithType(asked.Expression, kind),
	}
	var left sync.Mutex
	failing := asked.Fail
	take := func(message *rmq.MessageView) bool {
		body := base64.StdEncoding.EncodeToString(message.GetBody())
		told := line{
			"received":   asked.Consumer,
			"body":       body,
			"topic":      message.GetTopic(),
			"tag":        message.GetTag(),
			"id":         message.GetMessageId(),
			"reconsumed": message.GetDeliveryAttempt() - 1,
			"properties": message.GetProperties(),
		}
		if len(message.GetKeys()) > 0 {
			told["keys"] = strings.Join(message.GetKeys(), " ")
		}
		tell(told)
		left.Lock()
		defer left.Unlock()
		failing[body]--
		return failing[body] < 0
	}
	if asked.Simple {
		return simple(asked, wanted, take)
	}
	listener := &rmq.FuncMessageListener{Consume: func(message *rmq.MessageView) rmq.ConsumerResult {
		if take(message) {
			return rmq.SUCCESS
		}
		return rmq.FAILURE
	}}
	consumer, err := rmq.NewPushConsumer(config(asked.Group),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushConsumptionThreadCount(4),
		rmq.WithPushSubscriptionExpressions(wanted),
		rmq.WithPushMessageListener(listener))
	if err != nil {
		return err
	}
	consumers.Store(asked.Consumer, stopping(consumer.GracefulStop))
	return consumer.Start()
}

func simple(asked *request, wanted map[string]*rmq.FilterExpression, take func(*rmq.MessageView) bool) error {
	consumer, err := rmq.NewSimpleConsumer(config(asked.Group),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(wanted))
	if err != nil {
		return err
	}
	if err := consumer.Start(); err != nil {
		return err
	}
	consumers.Store(asked.Consumer, stopping(consumer.GracefulStop))
	go func() {
		for {
			if _, open := consumers.Load(asked.Consumer); !open {
				return
			}
			messages, err := consumer.Receive(context.Background(), 16, hidden)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				continue
			}
			for _, message := range messages {
				if take(message) {
					if err := consumer.Ack(context.Background(), message); err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
				}
			}
		}
	}()
	return nil
}
