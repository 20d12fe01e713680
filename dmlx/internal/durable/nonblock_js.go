package durable

const nonBlock = 0 // There are no pipes.
