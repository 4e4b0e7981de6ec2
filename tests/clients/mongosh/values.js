// Values as a shell sends them, one a document, and the commands that its cursors send: two shells must send the same bytes.
const hex = "507f191e810c19729de860ea";
const numbers = [
    0, -0, 1, -1, 0.5, -0.5, 1.5, 1e-7, 1e21, 1e300, -1e300, 5e-324, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), -(2 ** 31) - 1, 2 ** 32,
    2 ** 53, 2 ** 53 - 1, -(2 ** 53), 2 ** 63, 4294967295, 1e10, 100, 3.0, 0x7fffffff, 0b101, 0o17, 1_000, .25, NaN, Infinity,
    -Infinity, Number.MAX_SAFE_INTEGER, Number.MIN_VALUE, Number.MAX_VALUE, Math.PI, 1 / 3, 7 % 3, -7 % 3, 2 ** 0.5,
];
const texts = ["", "a", "ü", "😀", "日本", "a\u0000b", "\n\t\\", "'\"`", "x".repeat(1000), "\ud800", "a\udc00b", "𝒳y"];
const names = ["a", "a b", "ü", "1", "10", "-1", "a-b", "x.y", "a$b", "_", "constructor", "length", "toString"];
const makers = [
    ...numbers.map((number) => () => number),
    ...numbers.filter(Number.isInteger).filter((number) => Math.abs(number) < 2 ** 53).map((number) => () => NumberLong(String(number))),
    ...numbers.map((number) => () => Double(number)),
    ...numbers.filter((number) => Number.isInteger(number) && Math.abs(number) < 2 ** 31).flatMap((number) => [() => NumberInt(number), () => Int32(number)]),
    ...[0n, 1n, -1n, 2n ** 31n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)].map((number) => () => number),
    ...["9223372036854775807", "-9223372036854775808", "0", "12345678901"].flatMap((text) => [() => NumberLong(text), () => Long.fromString(text)]),
    ...["0", "1.50", "-0.001", "1E+3", "NaN", "Infinity", "-Infinity", "9.999999999999999999999999999999999E+6144", "1E-6176", "123456789012345678901234567890.1234"].flatMap((text) => [() => NumberDecimal(text), () => Decimal128.fromString(text)]),
    ...texts.map((text) => () => text),
    ...texts.filter((text) => !text.includes("\u0000")).map((text) => () => ({ [text === "" ? "empty" : text.slice(0, 20).replace(/[\ud800-\udfff]/g, "s")]: 1 })),
    ...names.map((name) => () => ({ [name]: { [name]: name } })),
    () => null, () => true, () => false, () => undefined, () => [undefined, null], () => ({ a: undefined, b: 1 }),
    () => [], () => ({}), () => [[]], () => [{}], () => [1, "a", [2, { b: [3.5] }]], () => ({ a: { b: { c: { d: {} } } } }),
    () => ({ z: 1, a: 2, m: 3 }), () => ({ b: 1, 2: 1, 1: 1, a: 1 }), () => new Map([["2", 1], ["1", { x: 1 }], ["b", 2]]),
    () => ({ f: () => 1, g: function () {}, a: 1 }), () => [() => 1, 2], () => ({ s: Symbol("x"), a: 1 }), () => Object.create({ inherited: 1 }),
    () => Object.assign(Object.create(null), { a: 1 }), () => new (class Point { constructor() { this.x = 1; } })(), () => ({ toBSON() { return { replaced: 1 }; } }),
    () => ObjectId(hex), () => new ObjectId(hex), () => ObjectId(hex.toUpperCase()), () => [ObjectId(hex)], () => ObjectId(hex).toString(),
    () => ObjectId(hex).getTimestamp(), () => ObjectId(hex).equals(ObjectId(hex)), () => ObjectId.createFromTime(5), () => ObjectId(hex).toHexString(),
    () => new Date(0), () => new Date(-1), () => new Date(1e15), () => new Date(8.64e15), () => ISODate("2020-02-03T04:05:06.789Z"),
    () => ISODate("2020-02-03"), () => ISODate("2020-02-03T04:05:06+02:00"), () => ISODate("20200203"), () => new Date("2020-02-03T04:05:06Z"), () => new Date(2020, 1, 3, 4),
    () => ISODate("0001-01-01T00:00:00Z"), () => ISODate("9999-12-31T23:59:59.999Z"), () => new Date(0).toISOString(), () => ISODate("2020-02-03T04:05Z"),
    () => /a/, () => /a/i, () => /a/m, () => /a/g, () => /a/im, () => /a\/b\n/i, () => new RegExp("x y", "i"), () => /^ü+$/, () => ({ $regex: /a/i }), () => /a/y, () => /[/]/u,
    () => UUID("00112233-4455-6677-8899-aabbccddeeff"), () => UUID("00112233445566778899AABBCCDDEEFF"), () => BinData(0, "AQID"), () => BinData(5, "AQIDBAUGBwgJCgsMDQ4PEA=="), () => BinData(0, ""),
    () => BinData(128, "/w=="), () => HexData(0, "00ff10"), () => HexData(6, "abcdef"), () => BinData(4, "ABEiM0RVZneImaq7zN3u/w=="),
    () => new Uint8Array([1, 2, 3]), () => Binary.createFromBase64("AQID"), () => Binary.createFromBase64("AQID", 5), () => BinData(2, "AQID"),
    () => Timestamp(1, 2), () => Timestamp({ t: 1, i: 2 }), () => Timestamp({ t: 4294967295, i: 4294967295 }), () => [Timestamp(0, 0)], () => new Timestamp({ t: 7, i: 0 }),
    () => MinKey(), () => MaxKey(), () => [MinKey(), MaxKey()], () => new MinKey(), () => new MaxKey(),
    () => Code("f()"), () => Code("f()", { x: 1 }), () => Code("f()", {}), () => new Code("a\nb"), () => ({ $code: "x" }),
    () => DBRef("c", 1), () => DBRef("c", ObjectId(hex), "d"), () => ({ $oid: hex }), () => ({ $numberLong: "5" }),
    () => NumberLong("5").add(NumberLong("7")), () => NumberLong("9223372036854775807").subtract(1), () => NumberLong("6").multiply(7), () => NumberLong("7").divide(2),
    () => NumberLong("5").toNumber(), () => NumberLong("12").toString(), () => NumberLong("5").equals(5), () => NumberLong("5").compare(NumberLong("6")), () => NumberLong("-7").modulo(3),
    () => NumberInt("12"), () => NumberLong("5") + 1, () => NumberInt(5) + 1, () => Double(2) * 2, () => NumberDecimal("1.5").toString(), () => [Double(1), 1, NumberInt(1), NumberLong("1")],
    () => [1, , 3], () => new Error("x").message, () => "a" + 1, () => [..."aü"], () => `t${1 + 1}`,
    () => EJSON.parse('{"a":{"$numberLong":"5"},"b":{"$oid":"507f191e810c19729de860ea"},"c":1.5,"d":{"$date":"2020-01-01T00:00:00Z"}}'),
    () => EJSON.parse('{"a":{"$numberLong":"5"},"b":{"$numberInt":"7"},"c":{"$numberDouble":"2.0"}}', { relaxed: false }),
    () => EJSON.parse('[1, 2147483648, 1.0, "x", null, true]'), () => EJSON.parse('{"a":{"$numberDecimal":"1.50"},"t":{"$timestamp":{"t":1,"i":2}},"m":{"$minKey":1}}'),
    () => EJSON.stringify({ a: 1, b: 1.5, c: NumberLong("5"), d: ObjectId(hex), e: new Date(0), f: [null, true, "x"] }),
    () => EJSON.stringify({ a: 1, b: 1.5, c: NumberLong("5"), d: NumberDecimal("1.50"), e: new Date(-1), f: Double(2), g: 2147483648 }, { relaxed: false }),
    () => EJSON.stringify({ a: BinData(0, "AQID"), b: UUID("00112233-4455-6677-8899-aabbccddeeff"), c: Timestamp(1, 2), d: MinKey(), e: /a/im, f: Code("x") }),
    () => EJSON.stringify({ a: undefined, b: [undefined], c: NaN, d: 1e21, e: -0, f: new Date(1) }), () => EJSON.stringify([1, { a: { b: [] } }], null, 2), () => EJSON.stringify("x"),
    () => JSON.stringify({ a: ObjectId(hex), b: NumberLong("5"), c: new Date(0) }),
];
makers.forEach((make, at) => db.values.insertOne({ _id: at, v: make() }));

// What was sent, as the server repeats it when it explains.
const sent = (explained) => {
    const { $db, ...command } = explained.command;
    return command;
};
const things = db.things;
const searches = [
    () => things.find(), () => things.find({}), () => things.find({ a: 1 }), () => things.find({ a: { $gt: 1.5, $lt: NumberLong("9") } }, { a: 1 }), () => things.find({ a: /x/i }, { _id: 0, b: 1 }),
    () => things.find().sort({ a: 1 }), () => things.find().sort({ a: -1, b: 1 }).limit(5), () => things.find().skip(3), () => things.find().limit(0), () => things.find({ a: 1 }).skip(1).limit(2).sort({ _id: -1 }),
    () => things.find().projection({ a: 1 }), () => things.find().hint({ _id: 1 }), () => things.find().hint("_id_"), () => things.find({ $or: [{ a: 1 }, { b: { $in: [1, "x", null] } }] }),
    () => things.find({ _id: ObjectId(hex) }), () => things.find({ at: ISODate("2020-01-01") }), () => things.find({ a: { $elemMatch: { b: 1 } } }).sort({ "a.b": 1 }),
    () => things.find({ n: 5n }), () => things.find({ a: undefined }), () => things.find({ a: null }), () => things.find({ a: { $not: { $gt: 5 } } }), () => things.find({}, { a: { $slice: 2 } }),
];
searches.forEach((search, at) => db.commands.insertOne({ _id: at, command: sent(search().explain()) }));
print("passed");
