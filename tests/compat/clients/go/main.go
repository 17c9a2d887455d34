// Drives apache/rocketmq-client-go: client NAMESERVER NAME
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
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
	Delay      int               `json:"delay"`
	How        string            `json:"how"`
	Commit     bool              `json:"commit"`
	Messages   []request         `json:"messages"`
	Consumer   string            `json:"consumer"`
	Group      string            `json:"group"`
	Expression string            `json:"expression"`
	SQL        bool              `json:"sql"`
	Orderly    bool              `json:"orderly"`
	Broadcast  bool              `json:"broadcast"`
	Fail       map[string]int    `json:"fail"`
	MaxRetries *int32            `json:"maxRetries"`
}

type line = map[string]any

// Of a send that a busy machine makes time out the client makes two.
const sendTimeout = 30 * time.Second

var (
	nameServer = os.Args[1]
	name       = os.Args[2]
	// As whom requests are signed; nobody where the environment does not say.
	credentials = primitive.Credentials{
		AccessKey: os.Getenv("CLIENT_ACCESS_KEY"), SecretKey: os.Getenv("CLIENT_SECRET_KEY"),
	}
	out     = os.Stdout
	writing sync.Mutex

	opening      sync.Mutex
	sender       rocketmq.Producer
	transactions rocketmq.TransactionProducer
	consumers    sync.Map
)

func main() {
	os.Stdout = os.Stderr // libraries write there too
	rlog.SetLogLevel("error")
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
	case "batch":
		return batch(asked)
	case "transaction":
		return transaction(asked)
	case "consume":
		return true, consume(asked)
	case "stop":
		started, _ := consumers.Load(asked.Consumer)
		return true, started.(rocketmq.PushConsumer).Shutdown()
	case "quit":
		return true, quit()
	}
	return nil, fmt.Errorf("this client cannot %s", asked.Do)
}

// Sending

func producing() (rocketmq.Producer, error) {
	opening.Lock()
	defer opening.Unlock()
	if sender != nil {
		return sender, nil
	}
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithGroupName(name+"-producers"),
		producer.WithCredentials(credentials),
		producer.WithSendMsgTimeout(sendTimeout),
		producer.WithQueueSelector(&orderly{producer.NewHashQueueSelector(), producer.NewRoundRobinQueueSelector()}),
	)
	if err != nil {
		return nil, err
	}
	sender = made
	return sender, sender.Start()
}

// orderly chooses by the sharding key where there is one.
type orderly struct {
	byKey producer.QueueSelector
	other producer.QueueSelector
}

func (o *orderly) Select(
	message *primitive.Message, queues []*primitive.MessageQueue, last string,
) *primitive.MessageQueue {
	if message.GetShardingKey() != "" {
		return o.byKey.Select(message, queues, last)
	}
	return o.other.Select(message, queues, last)
}

type decided struct{}

func (decided) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	if message.GetProperty("ends") != "" {
		return primitive.UnknowState
	}
	if message.GetProperty("commit") == "true" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (decided) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	if message.GetProperty("ends") == "commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transacting() (rocketmq.TransactionProducer, error) {
	opening.Lock()
	defer opening.Unlock()
	if transactions != nil {
		return transactions, nil
	}
	made, err := rocketmq.NewTransactionProducer(
		decided{},
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithGroupName(name+"-transactions"),
		producer.WithCredentials(credentials),
		producer.WithSendMsgTimeout(sendTimeout),
		producer.WithInstanceName(name+"-transactions"),
	)
	if err != nil {
		return nil, err
	}
	transactions = made
	return transactions, transactions.Start()
}

func message(asked *request) (*primitive.Message, error) {
	body, err := base64.StdEncoding.DecodeString(asked.Body)
	if err != nil {
		return nil, err
	}
	made := primitive.NewMessage(asked.Topic, body)
	made.WithProperties(asked.Properties)
	if asked.Tag != nil {
		made.WithTag(*asked.Tag)
	}
	if asked.Keys != nil {
		made.WithKeys([]string{*asked.Keys})
	}
	if asked.Order != nil {
		made.WithShardingKey(*asked.Order)
	}
	if asked.Delay > 0 {
		made.WithDelayTimeLevel(asked.Delay)
	}
	return made, nil
}

func send(asked *request) (any, error) {
	with, err := producing()
	if err != nil {
		return nil, err
	}
	made, err := message(asked)
	if err != nil {
		return nil, err
	}
	switch asked.How {
	case "oneway":
		return line{}, with.SendOneWay(context.Background(), made)
	case "async":
		type outcome struct {
			result *primitive.SendResult
			err    error
		}
		outcomes := make(chan outcome, 1)
		err = with.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				outcomes <- outcome{result, err}
			}, made)
		if err != nil {
			return nil, err
		}
		came := <-outcomes
		return sent(came.result, came.err)
	}
	return sent(with.SendSync(context.Background(), made))
}

func batch(asked *request) (any, error) {
	with, err := producing()
	if err != nil {
		return nil, err
	}
	messages := make([]*primitive.Message, len(asked.Messages))
	for i := range asked.Messages {
		if messages[i], err = message(&asked.Messages[i]); err != nil {
			return nil, err
		}
	}
	return sent(with.SendSync(context.Background(), messages...))
}

func transaction(asked *request) (any, error) {
	with, err := transacting()
	if err != nil {
		return nil, err
	}
	made, err := message(asked)
	if err != nil {
		return nil, err
	}
	made.WithProperty("commit", fmt.Sprint(asked.Commit))
	result, err := with.SendMessageInTransaction(context.Background(), made)
	if err != nil {
		return nil, err
	}
	return sent(result.SendResult, nil)
}

func sent(result *primitive.SendResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if result.Status != primitive.SendOK {
		return nil, errors.New(result.String())
	}
	return line{
		"id":        result.MsgID,
		"offset_id": result.OffsetMsgID,
		"queue":     result.MessageQueue.QueueId,
		"offset":    result.QueueOffset,
	}, nil
}

// Receiving

func consume(asked *request) error {
	options := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		consumer.WithGroupName(asked.Group),
		consumer.WithCredentials(credentials),
		consumer.WithInstance(fmt.Sprintf("%s-%d", asked.Consumer, os.Getpid())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(asked.Orderly),
		consumer.WithSuspendCurrentQueueTimeMillis(100),
	}
	if asked.Broadcast {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if asked.MaxRetries != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(*asked.MaxRetries))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: asked.Expression}
	if asked.SQL {
		selector.Type = consumer.SQL92
	}
	var counting sync.Mutex
	left := asked.Fail
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, got := range messages {
			body := base64.StdEncoding.EncodeToString(got.Body)
			tell(received(asked.Consumer, body, got))
			counting.Lock()
			if left[body] > 0 {
				left[body]--
				result = consumer.ConsumeRetryLater
				if asked.Orderly {
					result = consumer.SuspendCurrentQueueAMoment
				}
			}
			counting.Unlock()
		}
		return result, nil
	}
	if err := made.Subscribe(asked.Topic, selector, take); err != nil {
		return err
	}
	consumers.Store(asked.Consumer, made)
	return made.Start()
}

func received(by string, body string, got *primitive.MessageExt) line {
	told := line{
		"received":   by,
		"body":       body,
		"topic":      got.Topic,
		"id":         got.MsgId,
		"queue":      got.Queue.QueueId,
		"offset":     got.QueueOffset,
		"reconsumed": got.ReconsumeTimes,
		"born_ms":    got.BornTimestamp,
		"stored_ms":  got.StoreTimestamp,
		"properties": got.GetProperties(),
	}
	if tag := got.GetTags(); tag != "" {
		told["tag"] = tag
	}
	if keys := got.GetKeys(); keys != "" {
		told["keys"] = keys
	}
	return told
}

func quit() error {
	if transactions != nil {
		if err := transactions.Shutdown(); err != nil {
			return err
		}
	}
	if sender != nil {
		return sender.Shutdown()
	}
	return nil
}
