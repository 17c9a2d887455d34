'use strict';

// Drives npm's rocketmq-nodejs, the C++ client behind Node.js:
// node rocketmq-nodejs.js NAMESERVER NAME LOGS

const { serve, tell, failures } = require('./lines');
const { Producer, PushConsumer } = require('rocketmq-nodejs');

const [, , nameServer, name, logDir] = process.argv;
const common = { nameServer, logDir, logLevel: 'WARN', logFileSize: 1 << 20, logFileNum: 1 };
const consumers = new Map();
let producer;
let starting;

function sign(member) {
  const { CLIENT_ACCESS_KEY: user, CLIENT_SECRET_KEY: secret } = process.env;
  if (user) member.setSessionCredentials(user, secret, 'LOCAL');
}

async function started() {
  if (!producer) {
    producer = new Producer(`${name}-producers`, `${name}-${process.pid}`, common);
    sign(producer);
    starting = producer.start();
  }
  await starting;
  return producer;
}

async function send(request) {
  const options = {};
  if (request.tag !== null) options.tags = request.tag;
  if (request.keys !== null) options.keys = request.keys;
  const core = await started();
  const result = await core.send(request.topic, Buffer.from(request.body, 'base64'), options);
  if (result.status !== 0) throw new Error(result.statusStr);
  return { id: result.msgId, offset: result.offset };
}

async function consume(request) {
  const options = { ...common, threadCount: 4, maxBatchSize: 1 };
  if (request.maxRetries !== null) options.maxReconsumeTimes = request.maxRetries;
  const instance = `${request.consumer}-${process.pid}`;
  const consumer = new PushConsumer(request.group, instance, options);
  sign(consumer);
  const fails = failures(request.fail);
  consumer.on('message', (message, ack) => {
    const body = Buffer.from(message.body).toString('base64');
    tell({
      received: request.consumer,
      body,
      topic: message.topic,
      tag: message.tags || null,
      keys: message.keys || null,
      id: message.msgId,
    });
    ack.done(!fails(body));
  });
  consumer.subscribe(request.topic, request.expression);
  consumers.set(request.consumer, consumer);
  await consumer.start();
}

async function stop(request) {
  await consumers.get(request.consumer).shutdown();
  consumers.delete(request.consumer);
}

async function quit() {
  if (producer) await producer.shutdown();
}

serve({ send, consume, stop, quit });
