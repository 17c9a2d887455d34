'use strict';

// Drives npm's ali-ons: node ali-ons.js NAMESERVER NAME

const { serve, tell, failures } = require('./lines');
const { Consumer, Producer, Message } = require('ali-ons');

const [, , nameSrv, name] = process.argv;
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const common = {
  nameSrv,
  logger,
  // It insists on one, and uses it only where no NameServer is given.
  httpclient: { request() { throw new Error('nothing is to be asked of the web'); } },
  // So that a test need not wait for half a minute.
  accessKey: process.env.CLIENT_ACCESS_KEY,
  secretKey: process.env.CLIENT_SECRET_KEY,
  pollNameServerInteval: 500,
  rebalanceInterval: 500,
};
const consumers = new Map();
let producer;

async function started() {
  if (!producer) {
    producer = new Producer({ ...common, producerGroup: `${name}-producers` });
    producer.on('error', error => console.error(error));
  }
  await producer.ready();
  return producer;
}

async function send(request) {
  const message = new Message(request.topic, Buffer.from(request.body, 'base64'));
  if (request.tag !== null) message.tags = request.tag;
  if (request.keys !== null) message.keys = request.keys.split(' ');
  if (request.order !== null) message.shardingKey = request.order;
  if (request.delay) message.delayTimeLevel = request.delay;
  Object.assign(message.properties, request.properties);
  const result = await (await started()).send(message);
  if (result.sendStatus !== 'SEND_OK') throw new Error(result.sendStatus);
  return {
    id: result.msgId,
    offset_id: result.msgId,
    queue: Number(result.messageQueue.queueId),
    offset: result.queueOffset,
  };
}

async function consume(request) {
  const options = {
    ...common,
    consumerGroup: request.group,
    // Consumers of one instance stop together when one of them fails to find its queues.
    instanceName: `${request.consumer}-${process.pid}`,
    isBroadcast: request.broadcast,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  };
  if (request.maxRetries !== null) options.maxReconsumeTimes = request.maxRetries;
  const consumer = new Consumer(options);
  consumer.on('error', error => console.error(error));
  consumers.set(request.consumer, consumer);
  await consumer.ready();
  const fails = failures(request.fail);
  const expression = request.sql
    ? { expressionType: 'SQL92', subString: request.expression }
    : request.expression;
  consumer.subscribe(request.topic, expression, async message => {
    const body = message.body ? message.body.toString('base64') : '';
    tell({
      received: request.consumer,
      body,
      topic: message.topic,
      tag: message.tags === 'null' ? null : message.tags,
      keys: message.keys,
      id: message.originMessageId || message.msgId,
      queue: message.queueId,
      offset: message.queueOffset,
      reconsumed: message.reconsumeTimes,
      born_ms: message.bornTimestamp,
      stored_ms: message.storeTimestamp,
      properties: message.properties,
    });
    // Its other way, to return ACTION_RETRY, is not heard for messages that came again.
    if (fails(body)) throw new Error('this delivery is to fail');
  });
}

async function stop(request) {
  await consumers.get(request.consumer).close();
  consumers.delete(request.consumer);
}

async function queues(request) {
  const client = (await started())._mqClient;
  const route = await client.getTopicRouteInfoFromNameServer(request.topic, 3000);
  return route.queueDatas.reduce((sum, data) => sum + data.readQueueNums, 0);
}

async function quit() {
  if (producer) await producer.close();
}

serve({ send, consume, stop, queues, quit });
