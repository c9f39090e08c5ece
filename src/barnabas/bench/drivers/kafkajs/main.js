// The kafkajs driver of `barnabas bench compare`.
//
// Its one argument is the spec, a JSON object; see ../../compare/client_driver.py for roles and results.
//
// The client runs with its defaults, which in the pinned version are:
//
//   acks         all replicas in sync, not idempotent
//   batching     none but the caller's: a `send` is one request to each leader, without linger
//   compression  none
//   fetch        10 MiB, 1 MiB a partition, at least 1 byte, at most 5 s wait, read_committed
//   prefetch     one fetch a broker; the next one begins once its batches were handled
//   group        classic protocol (it has no other), round robin, commits after each batch
//   partitioner  records without a key go to each partition in turn; with skew they name theirs
//
// It has no consumer without a group, so that the latency role uses one, too.

'use strict'

const { randomBytes } = require('node:crypto')
const { performance } = require('node:perf_hooks')

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const { Kafka, logLevel } = require('kafkajs')

const PATIENCE_MS = 115_000 // below what the caller waits, so that it hears the reason
const MESSAGES_A_SEND = 500
const MAX_VALUES = 8191 // more are sent again: prime, so that no partition gets the same ones
const PROGRESS_STEP_MS = 10
const HEAD_BYTES = 24 // of a message of the latency role: mark, number, time of sending
const LEAVES_WITHIN_MS = 1_000 // it waits for its last fetch, which an idle topic answers late
const DEFAULTS = { partitions: 1, message_bytes: 1000, rate: 200, seconds: 1 }
const ROLES = { produce, consume, latency }

async function main() {
  const spec = { ...DEFAULTS, ...JSON.parse(process.argv[2]) }
  const role = ROLES[spec.role]
  if (!role) throw new Error(`unknown role ${JSON.stringify(spec.role)}`)
  if (!spec.shared) {
    setTimeout(() => fail(`${spec.role} did not end within ${PATIENCE_MS / 1000} s`), PATIENCE_MS)
  }
  const kafka = new Kafka({ brokers: spec.bootstrap.split(','), logLevel: logLevel.NOTHING })
  const answer = await role(kafka, spec)
  process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0))
}

function fail(reason) {
  const [line] = String(reason).split('\n')
  process.stderr.write(`kafkajs: ${line}\n`, () => process.exit(1))
}

// -- produce -----------------------------------------------------------------

async function produce(kafka, spec) {
  const producer = kafka.producer()
  await producer.connect()
  await loadMetadata(producer, spec.topic)
  const sends = newSends(spec)
  const start = performance.now()
  for (const messages of sends) await producer.send({ topic: spec.topic, messages })
  const seconds = (performance.now() - start) / 1000
  await producer.disconnect()
  return { seconds }
}

// A producer loads a topic's metadata for its first send, even for one without messages.
function loadMetadata(producer, topic) {
  return producer.send({ topic, messages: [] })
}

function newSends(spec) {
  const values = newValues(Math.min(spec.messages, MAX_VALUES), spec.message_bytes)
  const sends = []
  for (let i = 0; i < spec.messages; i++) {
    if (i % MESSAGES_A_SEND === 0) sends.push([])
    const partition = spec.skew ? skewed(i, spec.partitions) : undefined
    sends.at(-1).push({ value: values[i % values.length], partition })
  }
  return sends
}

// Nine of ten to partition 0, the rest to the others in turn.
function skewed(i, partitions) {
  return i % 10 !== 9 || partitions === 1 ? 0 : 1 + (Math.floor(i / 10) % (partitions - 1))
}

// Half random, half constant.
function newValues(count, size) {
  const half = Math.floor(size / 2)
  return Array.from({ length: count }, () =>
    Buffer.concat([randomBytes(half), Buffer.alloc(size - half)])
  )
}

// -- consume -----------------------------------------------------------------

async function consume(kafka, spec) {
  if (spec.protocol === 'consumer') throw new Error('it has no consumer protocol (KIP-848)')
  const seen = new Arrival()
  const consumer = await newMember(kafka, spec.topic, spec.group)
  onFirstAssignment(consumer, () => seen.onAssigned())
  const progress = spec.shared ? new Progress() : null
  const ended = spec.shared ? stdinEnded() : seen.reaches(spec.messages)
  let done = false
  const eachBatch = async ({ batch }) => {
    if (done) return
    seen.onBatch(batch.messages)
    progress?.onRead(seen.messages)
  }
  await consumer.run({ eachBatch })
  await ended
  done = true
  progress?.end()
  const answer = seen.answer(spec.shared)
  await leave(consumer)
  return answer
}

async function newMember(kafka, topic, groupId) {
  const consumer = kafka.consumer({ groupId })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) fail(payload.error.message)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  return consumer
}

function onFirstAssignment(consumer, call) {
  let assigned = false
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (assigned || !Object.values(payload.memberAssignment).some(each => each.length)) return
    assigned = true
    call()
  })
}

// What was read so far, and when the first assignment came.
class Arrival {
  messages = 0
  bytes = 0

  onAssigned() {
    this.assigned = performance.now()
  }

  onBatch(messages) {
    this.last = performance.now()
    this.first ??= this.last
    this.messages += messages.length
    for (const { value } of messages) this.bytes += value.length
    if (this.messages >= this.wanted) this.reached()
  }

  reaches(wanted) {
    return new Promise(resolve => Object.assign(this, { wanted, reached: resolve }))
  }

  answer(shared) {
    const found = { messages: this.messages, bytes: this.bytes }
    if (shared) return found
    const since = at => (at - this.assigned) / 1000
    return { ...found, seconds: since(this.last), first_s: since(this.first) }
  }
}

// Prints when how many messages were read. What comes too soon after a line is printed with the
// next one, or alone once a step is over: no line is left out for good.
class Progress {
  printed = 0
  pending = null

  onRead(messages) {
    const at = performance.now()
    this.line = `[${((performance.timeOrigin + at) / 1000).toFixed(6)}, ${messages}]\n`
    const wait = this.printed + PROGRESS_STEP_MS - at
    if (wait <= 0) this.print()
    else this.pending ??= setTimeout(() => this.print(), wait)
  }

  print() {
    clearTimeout(this.pending)
    this.pending = null
    this.printed = performance.now()
    process.stdout.write(this.line)
  }

  end() {
    if (this.pending) this.print()
  }
}

// It has a line or is closed.
function stdinEnded() {
  return new Promise(resolve => {
    process.stdin.on('data', chunk => chunk.includes(10) && resolve())
    process.stdin.on('close', () => resolve())
    process.stdin.on('error', () => resolve())
  })
}

function leave(consumer) {
  const late = new Promise(resolve => setTimeout(resolve, LEAVES_WITHIN_MS))
  return Promise.race([consumer.disconnect(), late])
}

// -- latency -----------------------------------------------------------------

// Sends for a second that does not count, then for as many seconds as the spec says.
async function latency(kafka, { topic, message_bytes: size, rate, seconds }) {
  const mark = randomBytes(8) // tells these messages from those of another run
  const producer = kafka.producer()
  await producer.connect()
  await loadMetadata(producer, topic)
  const consumer = await newMember(kafka, topic, `latency-${mark.toString('hex')}`)
  const send = number => {
    const value = Buffer.alloc(Math.max(HEAD_BYTES, size))
    mark.copy(value)
    value.writeInt32BE(number, 8)
    value.writeDoubleBE(performance.now(), 16)
    producer.send({ topic, messages: [{ value, partition: 0 }] }).catch(error => fail(error.message))
  }
  const ignored = Math.floor(rate)
  const wanted = Math.floor(rate * seconds)
  const took = await new Promise((resolve, reject) => {
    const found = []
    onFirstAssignment(consumer, () => send(-1)) // the consumer has its position once it read this one
    const eachMessage = async ({ message: { value } }) => {
      const at = performance.now()
      if (value.length < HEAD_BYTES || !value.subarray(0, 8).equals(mark)) return
      const number = value.readInt32BE(8)
      if (number === -1) sendAtRate(rate, ignored + wanted, send)
      if (number >= ignored) found.push(at - value.readDoubleBE(16))
      if (number >= ignored && found.length === wanted) resolve(found)
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await Promise.all([leave(consumer), producer.disconnect()])
  took.sort((a, b) => a - b)
  return { p50_ms: percentile(took, 50), p99_ms: percentile(took, 99), messages: took.length }
}

function sendAtRate(rate, total, send) {
  const start = performance.now()
  let number = 0
  const sendDue = () => {
    for (; number < total && start + (number / rate) * 1000 <= performance.now(); number++) {
      send(number)
    }
    if (number >= total) return
    setTimeout(sendDue, Math.max(0, start + (number / rate) * 1000 - performance.now()))
  }
  sendDue()
}

function percentile(sorted, percent) {
  return sorted[Math.min(Math.floor((sorted.length * percent) / 100), sorted.length - 1)]
}

main().catch(error => fail(error.message))
