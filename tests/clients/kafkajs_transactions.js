// Transactions of kafkajs: BOOTSTRAP SOURCE TARGET GROUP COUNT. It copies COUNT numbers from SOURCE to
// TARGET with the offsets in the transaction; each transaction is aborted once and then repeated. At
// the end a producer of the same id fences the first one.

'use strict'

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, source, target, groupId, count] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })

function newProducer() {
  return kafka.producer({ transactionalId: groupId, maxInFlightRequests: 1, idempotent: true })
}

async function copy(producer, { topic, partition, messages }, commits) {
  const transaction = await producer.transaction()
  await transaction.send({
    topic: target,
    messages: messages.map(({ value }) => ({ value, partition })),
  })
  const offset = (BigInt(messages.at(-1).offset) + 1n).toString()
  await transaction.sendOffsets({
    consumerGroupId: groupId,
    topics: [{ topic, partitions: [{ partition, offset }] }],
  })
  await (commits ? transaction.commit() : transaction.abort())
}

async function copyAll(producer) {
  const consumer = kafka.consumer({ groupId, readUncommitted: false })
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  let left = Number(count)
  await new Promise((resolve, reject) => {
    const eachBatch = async ({ batch }) => {
      await copy(producer, batch, false)
      await copy(producer, batch, true)
      left -= batch.messages.length
      if (left === 0) resolve()
    }
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({ autoCommit: false, eachBatch }).catch(reject)
  })
  await consumer.disconnect()
}

async function isFenced(zombie) {
  const transaction = await zombie.transaction()
  await transaction.send({ topic: target, messages: [{ value: '-1', partition: 0 }] })
  const successor = newProducer()
  await successor.connect()
  await (await successor.transaction()).abort()
  await successor.disconnect()
  try {
    await transaction.commit()
  } catch (error) {
    return true
  }
  return false
}

async function main() {
  const producer = newProducer()
  await producer.connect()
  await copyAll(producer)
  console.log((await isFenced(producer)) ? 'done' : 'not fenced')
  await producer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
