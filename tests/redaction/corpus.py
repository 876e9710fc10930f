"""Texts with a secret and texts without one, to measure what redaction finds.

Every secret is made here, from its prefix and a seeded generator: none is anybody's, and none stands in a file.
The lists that are held out were written with the others, before the patterns; no pattern was fitted to them.
"""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable
from typing import NamedTuple

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM, HEX, WORD = UPPER + LOWER + DIGITS, "0123456789abcdef", UPPER + LOWER + DIGITS + "_-"


class Sample(NamedTuple):
    kind: str
    text: str
    secret: str


class Maker:
    """Random parts of texts, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        """Characters of an alphabet; letters and digits among them, as in any real token."""
        while True:
            made = "".join(self._random.choices(alphabet, k=length))
            wanted = [kind for kind in (DIGITS, LOWER, UPPER) if set(kind) & set(alphabet)]
            if length < 8 or (all(set(made) & set(kind) for kind in wanted) and made[0].isalnum()):
                return made

    def hex(self, length: int) -> str:
        return self.of(HEX, length)

    def pick(self, *those: str) -> str:
        return self._random.choice(those)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def base64(self, length: int) -> str:
        return base64.b64encode(self._random.randbytes(length)).decode()

    def card(self, prefix: str, length: int) -> str:
        body = prefix + self.of(DIGITS, length - len(prefix) - 1)
        total = sum(sum(divmod(int(digit) * (2 if at % 2 == 0 else 1), 10)) for at, digit in enumerate(reversed(body)))
        return body + str(-total % 10)

    def no_card(self, prefix: str, length: int) -> str:
        card = self.card(prefix, length)
        return card[:-1] + str((int(card[-1]) + 3) % 10)

    def iban(self, country: str, bank: str) -> str:
        number = int("".join(str(int(sign, 36)) for sign in f"{bank}{country}00"))
        return f"{country}{98 - number % 97:02d}{bank}"

    def jwt(self) -> str:
        parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": self.of(DIGITS, 10), "iat": 1_700_000_000})
        told = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        return ".".join((*told, self.of(WORD, 43)))

    def pem(self, name: str) -> tuple[str, str]:
        """A private key, and the line within that must be gone."""
        lines = [self.base64(48) for _ in range(4)]
        dashes = "-" * 5
        body = "\n".join(lines)
        return f"{dashes}BEGIN {name}PRIVATE KEY{dashes}\n{body}\n{dashes}END {name}PRIVATE KEY{dashes}", lines[1]


def grouped(digits: str, separator: str, *sizes: int) -> str:
    at, groups = 0, []
    for size in sizes:
        groups.append(digits[at : at + size])
        at += size
    return separator.join(groups)


def _tokens(make: Maker) -> list[tuple[str, str]]:
    """Tokens that are known by their own shape."""
    return [
        ("aws key id", "AK" + "IA" + make.of(UPPER + "234567", 16)),
        ("aws session key id", "AS" + "IA" + make.of(UPPER + "234567", 16)),
        ("gcp api key", "AI" + "zaSy" + make.of(WORD, 33)),
        ("google oauth token", "ya" + "29." + make.of(WORD, 80)),
        ("google oauth secret", "GOC" + "SPX-" + make.of(WORD, 28)),
        ("azure client secret", make.of(ALNUM, 3) + "8" + "Q~" + make.of(ALNUM, 34)),
        ("github token", "gh" + "p_" + make.of(ALNUM, 36)),
        ("github app token", "gh" + "s_" + make.of(ALNUM, 36)),
        ("github fine-grained", "github" + "_pat_" + make.of(ALNUM, 22) + "_" + make.of(ALNUM, 59)),
        ("gitlab token", "gl" + "pat-" + make.of(WORD, 20)),
        ("gitlab runner", "gl" + "rt-" + make.of(WORD, 20)),
        ("gitlab deploy", "gl" + "dt-" + make.of(WORD, 20)),
        ("slack bot", "xo" + "xb-" + make.of(DIGITS, 12) + "-" + make.of(DIGITS, 13) + "-" + make.of(ALNUM, 24)),
        ("slack user", "xo" + "xp-" + make.of(DIGITS, 12) + "-" + make.of(DIGITS, 12) + "-" + make.of(HEX, 32)),
        ("slack app", "xa" + "pp-1-A" + make.of(UPPER, 10) + "-" + make.of(DIGITS, 13) + "-" + make.of(HEX, 64)),
        ("stripe secret", "sk" + "_live_" + make.of(ALNUM, 24)),
        ("stripe restricted", "rk" + "_live_" + make.of(ALNUM, 24)),
        ("stripe webhook", "wh" + "sec_" + make.of(ALNUM, 32)),
        ("openai", "sk" + "-" + make.of(ALNUM, 48)),
        ("openai project", "sk" + "-proj-" + make.of(WORD, 100)),
        ("anthropic", "sk" + "-ant-api03-" + make.of(WORD, 93) + "AA"),
        ("openrouter", "sk" + "-or-v1-" + make.hex(64)),
        ("hugging face", "hf" + "_" + make.of(ALNUM, 34)),
        ("npm", "np" + "m_" + make.of(ALNUM, 36)),
        ("pypi", "py" + "pi-AgEIcHlwaS5vcmc" + make.of(WORD, 70)),
        ("sendgrid", "S" + "G." + make.of(WORD, 22) + "." + make.of(WORD, 43)),
        ("twilio key", "S" + "K" + make.hex(32)),
        ("telegram bot", make.of(DIGITS, 10) + ":AA" + make.of(WORD, 33)),
        ("discord bot", "MT" + make.of(ALNUM, 24) + "." + make.of(ALNUM, 6) + "." + make.of(WORD, 38)),
        ("shopify", "shp" + "at_" + make.hex(32)),
        ("shopify secret", "shp" + "ss_" + make.hex(32)),
        ("digitalocean", "do" + "p_v1_" + make.hex(64)),
        ("databricks", "da" + "pi" + make.hex(32)),
        ("doppler", "dp" + ".pt." + make.of(ALNUM, 43)),
        ("vault", "hv" + "s." + make.of(WORD, 90)),
        ("linear", "lin" + "_api_" + make.of(ALNUM, 40)),
        ("notion", "nt" + "n_" + make.of(ALNUM, 46)),
        ("notion old", "sec" + "ret_" + make.of(ALNUM, 43)),
        ("mailgun", "k" + "ey-" + make.hex(32)),
        ("mailchimp", make.hex(32) + "-u" + "s12"),
        ("figma", "fi" + "gd_" + make.of(WORD, 40)),
        ("atlassian", "ATA" + "TT3xFfGF0" + make.of(WORD, 180)),
        ("postman", "PM" + "AK-" + make.hex(24) + "-" + make.hex(34)),
        ("new relic", "NR" + "AK-" + make.of(UPPER + DIGITS, 27)),
        ("grafana", "gl" + "sa_" + make.of(ALNUM, 32) + "_" + make.hex(8)),
        ("docker hub", "dc" + "kr_pat_" + make.of(WORD, 27)),
        ("terraform cloud", make.of(ALNUM, 14) + ".atl" + "asv1." + make.of(ALNUM, 67)),
        ("pulumi", "pu" + "l-" + make.hex(40)),
        ("rubygems", "ruby" + "gems_" + make.hex(48)),
        ("square", "sq" + "0csp-" + make.of(WORD, 43)),
        ("sendinblue", "xkey" + "sib-" + make.hex(64) + "-" + make.of(ALNUM, 16)),
        ("supabase", "sb" + "p_" + make.hex(40)),
        ("planetscale", "psc" + "ale_tkn_" + make.of(WORD, 43)),
        ("tailscale", "ts" + "key-auth-" + make.of(ALNUM, 12) + "-" + make.of(ALNUM, 32)),
        ("sentry", "sntr" + "ys_" + make.of(ALNUM, 80)),
        ("groq", "gs" + "k_" + make.of(ALNUM, 52)),
        ("langsmith", "ls" + "v2_pt_" + make.hex(32) + "_" + make.hex(10)),
        ("replicate", "r" + "8_" + make.of(ALNUM, 37)),
        ("nvidia", "nv" + "api-" + make.of(WORD, 64)),
        ("alibaba", "LT" + "AI" + make.of(ALNUM, 20)),
        ("hubspot", "pa" + "t-na1-" + make.uuid()),
        ("mapbox", "sk" + ".ey" + "J" + make.of(ALNUM, 60) + "." + make.of(WORD, 22)),
        ("flutterwave", "FLW" + "SECK_TEST-" + make.hex(32) + "-X"),
        ("dynatrace", "dt0" + "c01." + make.of(UPPER + DIGITS, 24) + "." + make.of(UPPER + DIGITS, 64)),
        ("age", "AGE-" + "SECRET-KEY-1" + make.of(UPPER + DIGITS, 58)),
        ("jwt", make.jwt()),
    ]


TOKEN_PLACES = (
    "{}",
    "I use {} for the deployment.",
    "export SERVICE_VALUE={}",
    '{{"value": "{}"}}',
    "Here it is: {}\nPlease keep it.",
    "https://api.example.com/v1?x={}&y=1",
    "('{}', 1)",
)


def _positive(make: Maker) -> list[Sample]:
    """Texts that hold a secret, of the half that patterns are fitted to."""
    samples = [
        Sample(kind, TOKEN_PLACES[at % len(TOKEN_PLACES)].format(token), token)
        for at, (kind, token) in enumerate(_tokens(make))
    ]

    def said(kind: str, text: str, secret: str) -> None:
        samples.append(Sample(kind, text.format(secret), secret))

    for name in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        pem, line = make.pem(name)
        samples.append(Sample("private key", f"My key:\n{pem}\nThanks.", line))
    aws = make.of(ALNUM + "/+", 40)
    said("aws secret", "aws_secret_access_key = {}", aws)
    said("aws secret", "AWS_SECRET_KEY={}", make.of(ALNUM + "/+", 40))
    said("aws secret", "The AWS secret is {} and the region is eu-west-1.", make.of(ALNUM + "/+", 40))
    said(
        "azure storage",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.windows.net",
        make.base64(64),
    )
    said("azure sas", "https://shop.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}%3D", make.of(ALNUM, 43))
    said("azure bus", "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKey={}", make.base64(32))
    said(
        "slack webhook",
        "https://hooks.slack.com/services/T0" + make.of(UPPER, 9) + "/B0" + make.of(UPPER, 9) + "/{}",
        make.of(ALNUM, 24),
    )
    said("discord webhook", "https://discord.com/api/webhooks/" + make.of(DIGITS, 18) + "/{}", make.of(WORD, 68))
    said("twilio auth", "TWILIO_AUTH_TOKEN={}", make.hex(32))
    said("heroku", "HEROKU_API_KEY: {}", make.uuid())
    said("datadog", "DD_API_KEY={}", make.hex(32))
    said("connection", "postgres://app:{}@db.internal:5432/shop", make.of(ALNUM, 14))
    said("connection", "postgresql://app:{}@db/shop", "correct" + "horse" + "battery")
    said(
        "connection", "mongodb+srv://shop:{}@cluster0.example.mongodb.net/?retryWrites=true", "p%40" + make.of(ALNUM, 9)
    )
    said("connection", "redis://:{}@localhost:6379/0", make.of(ALNUM, 10))
    said("connection", "amqp://guest:{}@rabbit:5672/", make.of(ALNUM, 12))
    said("connection", "Server=db;Database=shop;User Id=sa;Password={};", "Sommer!" + make.of(DIGITS, 4))
    said("connection", "host=db user=app password={} dbname=shop", make.of(ALNUM, 12))
    said("basic auth url", "git clone https://ada:{}@git.example.com/x.git", make.of(ALNUM, 16))
    said("basic auth url", "https://admin:{}@jenkins.example.com/job/1", "tr0ub4" + "dor&3")
    said("bearer", "Authorization: Bearer {}", make.of(ALNUM, 32))
    said("basic", "Authorization: Basic {}", base64.b64encode(f"ada:{make.of(ALNUM, 12)}".encode()).decode())
    said("header", "X-API-Key: {}", make.hex(20))
    said("curl", "curl -u admin:{} https://example.com/api", make.of(ALNUM, 11))
    said("netrc", "machine example.com login ada password {}", make.of(ALNUM, 10))
    said("password", "my password is {}", "blaubeer" + make.of(DIGITS, 3))
    said("password", 'password: "{}"', "correct" + "horse" + "battery")
    said("password", "DB_PASSWORD={}", make.of(ALNUM, 6))
    said("password", "The passphrase: {}", make.of(ALNUM, 14))
    said("password", '{{"user": "ada", "password": "{}"}}', "hunter2" + "trombone")
    said("password", "Passwort: {}", "Kirsche" + make.of(DIGITS, 4) + "!")
    said("client secret", '"client_secret": "{}"', make.of(ALNUM, 32))
    said("secret key", "SECRET_KEY = '{}'", make.of(ALNUM + "!@#%^*", 50))
    said("token", "access_token: {}", make.of(ALNUM, 40))
    said("token", "https://example.com/cb?access_token={}&state=1", make.of(ALNUM, 30))
    for address in ("ada.lovelace+x@example.co.uk", "post@münchen.example", "x_1@mail.example-shop.io"):
        said("email", "Write to {} please.", address)
    said("email", "https://example.com/?to={}&x=1", "ada%40example.com")
    said("email", "My address is {}.", "ada＠example.com")
    said("email", "mailto:{}?subject=hi", "grace.hopper@navy.example.mil")
    said("email", '{{"to": "{}"}}', "ada\\u0040example.com")
    said("email", "From: Ada <{}>", "ada@mail.example.museum")
    for prefix, length, sizes, separator in (
        ("4", 16, (4, 4, 4, 4), " "),
        ("51", 16, (4, 4, 4, 4), "-"),
        ("4", 16, (4, 4, 4, 4), "."),
        ("4", 16, (4, 4, 4, 4), "\u2009"),
        ("55", 16, (4, 4, 4, 4), "\u2011"),
        ("4", 16, (4, 4, 4, 4), "\u00a0"),
        ("34", 15, (4, 6, 5), " "),
        ("6011", 16, (16,), ""),
        ("37", 15, (15,), ""),
        ("4", 13, (13,), ""),
    ):
        said("card", "Pay with {} today.", grouped(make.card(prefix, length), separator, *sizes))
    for phone in (
        "+14155552671",
        "+49 30 901820",
        "+44 (0)20 7946 0958",
        "0049 30 9018 2044",
        "030 901820-44",
        "0171 2345678",
        "020 7946 0958",
        "07700 900123",
        "01 23 45 67 89",
        "03-1234-5678",
        "090-1234-5678",
        "(415) 555-2671",
        "415.555.2671",
        "1-415-555-2671",
        "+33 1 23 45 67 89",
    ):
        said("phone", "You reach me at {}.", phone)
    said("phone", "My phone number is {}", "4155552671")
    said("phone", "Tel.: {}", "415 555 2671")
    said("phone", "Mobile: {}", "98765 43210")
    for country, bank, sizes in (
        ("DE", make.of(DIGITS, 18), (4, 4, 4, 4, 4, 2)),
        ("GB", "WEST" + make.of(DIGITS, 14), (22,)),
        ("FR", make.of(DIGITS, 10) + make.of(UPPER + DIGITS, 11) + make.of(DIGITS, 2), (4, 4, 4, 4, 4, 4, 3)),
        ("NL", "ABNA" + make.of(DIGITS, 10), (4, 4, 4, 4, 2)),
        ("NO", make.of(DIGITS, 11), (15,)),
    ):
        said("iban", "Please transfer it to {}.", grouped(make.iban(country, bank), " ", *sizes))
    said("ssn", "SSN: {}", "078-05-" + make.of(DIGITS, 4))
    said("ssn", "My social security number is {}.", "219-09-" + make.of(DIGITS, 4))
    said("ssn", '{{"ssn": "{}"}}', "457-55-" + make.of(DIGITS, 4))
    return samples


def _held_out_positive(make: Maker) -> list[Sample]:
    places = (
        "Use `{}` until Friday",
        "key={};",
        "- {}\n- another line",
        "It failed with 401 for {}, so I made a new one.",
        'config.set("x", "{}")',
        "<value>{}</value>",
        "{}\n",
    )
    tokens = [
        *_tokens(make)[::4],
        ("atlassian bitbucket", "AT" + "BB" + make.of(ALNUM, 32)),
        ("github refresh", "gh" + "r_" + make.of(ALNUM, 76)),
        ("gitlab trigger", "gl" + "ptt-" + make.hex(40)),
        ("gitlab ci", "gl" + "cbt-" + make.of(WORD, 20)),
        ("stripe test", "sk" + "_test_" + make.of(ALNUM, 99)),
        ("openai admin", "sk" + "-admin-" + make.of(WORD, 100)),
        ("openai service", "sk" + "-svcacct-" + make.of(WORD, 100)),
        ("xai", "xa" + "i-" + make.of(ALNUM, 80)),
        ("perplexity", "pp" + "lx-" + make.of(ALNUM, 48)),
        ("vault batch", "hv" + "b." + make.of(WORD, 120)),
        ("shopify app", "shp" + "ca_" + make.hex(32)),
        ("digitalocean oauth", "do" + "o_v1_" + make.hex(64)),
        ("airtable", "pa" + "t" + make.of(ALNUM, 14) + "." + make.hex(64)),
        ("netlify", "nf" + "p_" + make.of(ALNUM, 36)),
        ("circleci", "CCI" + "PAT_" + make.of(ALNUM, 22) + "_" + make.hex(40)),
        ("sourcegraph", "sg" + "p_" + make.hex(40)),
        ("dropbox", "s" + "l." + make.of(WORD, 136)),
        ("fastly", "fast" + "ly_" + make.of(WORD, 32)),
        ("razorpay", "rzp" + "_live_" + make.of(ALNUM, 14)),
        ("contentful", "CF" + "PAT-" + make.of(WORD, 43)),
        ("typeform", "tf" + "p_" + make.of(WORD, 59)),
        ("buildkite", "bk" + "ua_" + make.hex(40)),
        ("tavily", "tv" + "ly-" + make.of(ALNUM, 32)),
        ("1password", "op" + "s_ey" + "J" + make.of(ALNUM, 250)),
    ]
    samples = [Sample(kind, places[at % len(places)].format(token), token) for at, (kind, token) in enumerate(tokens)]

    def said(kind: str, text: str, secret: str) -> None:
        samples.append(Sample(kind, text.format(secret), secret))

    pem, line = make.pem("DSA ")
    samples.append(Sample("private key", json.dumps({"key": pem}), line))
    said("aws secret", "secret access key {} (rotate it)", make.of(ALNUM + "/+", 40))
    said("connection", "mysql://root:{}@127.0.0.1:3306/db", make.of(ALNUM, 9))
    said("connection", "Driver={{ODBC}};Server=x;Uid=sa;Pwd={};", make.of(ALNUM, 9))
    said("connection", "jdbc:postgresql://db/x?user=app&password={}", make.of(ALNUM, 10))
    said("basic auth url", "ftp://files:{}@ftp.example.com/", make.of(ALNUM, 8))
    said("bearer", "-H 'authorization: bearer {}'", make.of(WORD, 44))
    said("header", "api-key: {}", make.hex(32))
    said("curl", "curl --user 'ada:{}' https://example.com", make.of(ALNUM, 9))
    said("password", "The password is: {}", make.of(ALNUM, 12))
    said("password", "login ada / password {}", make.of(ALNUM, 12))
    said("password", "PGPASSWORD={} psql", make.of(ALNUM, 8))
    said("password", "user: root, pw: {}", make.of(ALNUM, 10))
    said("password", "contraseña: {}", make.of(ALNUM, 10))
    said("password", "sshpass -p {} ssh host", make.of(ALNUM, 10))
    said("secret", "JWT_SECRET={}", make.of(ALNUM, 32))
    said("secret", "webhook secret = {}", make.of(ALNUM, 24))
    said("token", 'token: "{}"', make.of(ALNUM, 36))
    said("token", "refresh_token={}", make.of(WORD, 60))
    said("email", "cc {};", "o'neil.bob@example.org")
    said("email", "<a href='mailto:{}'>", "info@example.de")
    said("email", "{}", "用户@例子.公司")
    said("email", "user={}&page=2", "bob%40mail.example.org")
    said("card", "Card number {}, exp 04/29", grouped(make.card("2221", 16), " ", 4, 4, 4, 4))
    said("card", "card:{}", make.card("36", 14))
    said("card", "({})", grouped(make.card("4", 16), "\u202f", 4, 4, 4, 4))
    said("card", "{}", grouped(make.card("52", 16), "_", 4, 4, 4, 4))
    said("phone", "ring {} tonight", "+81 90-1234-5678")
    said("phone", "{} (office)", "089/1234567")
    said("phone", "Fax {}", "0211-12345-67")
    said("phone", "text me: {}", "(212) 736-5000")
    said("phone", "WhatsApp {}", "0044 7700 900123")
    said("phone", "call {} after six", "06 12 34 56 78")
    said("phone", "office: {}", "0161 496 0123")
    said("phone", "tel:{}", "+34-912-345-678")
    said("iban", "IBAN {}", make.iban("AT", make.of(DIGITS, 16)))
    said("iban", '{{"account": "{}"}}', make.iban("ES", make.of(DIGITS, 20)))
    said("iban", "{} (Zürich)", grouped(make.iban("CH", "00762" + make.of(DIGITS, 12)), " ", 4, 4, 4, 4, 4, 1))
    said("ssn", "social security no. {}", "536-22-" + make.of(DIGITS, 4))
    said("ssn", "Employee (SSN {})", "212 09 " + make.of(DIGITS, 4))
    return samples


PROSE = (
    "Let us meet at the harbour at nine and talk about the plan for the winter.",
    "The token bucket algorithm 2 is explained in chapter 12.",
    "The password field must have at least 8 characters and a digit.",
    "A basic understanding of physics is needed for unit 4.",
    "She is the bearer of good news, as of 2024.",
    "It is an open secret: nobody reads page 42.",
    "Passwords are stored as scrypt hashes with 16 bytes of salt.",
    "Reset your password: https://example.com/reset",
    "Please choose a password: it needs 12 characters.",
    "The key takeaways: 1) rest 2) water 3) sleep",
    "I scored +1000000000 points in that game.",
    "Secret santa2026 party on Friday!",
    "secret: santa2026party",
    "My favourite number is 4155552671 in base ten? No.",
    "There were 1 234 567 890 people counted in the year 1850.",
    "Extension 4155, room 415-555, building 12.",
    "The phone has 128 GB and 8 cores; phones of 2023 have 12.",
    "Call me tomorrow at 10:30 or 14:45, not on 2026-11-16.",
    "In 1914-1918 and 1939-1945 there were wars.",
    "Population: 10,234,567; area: 1,234,567.89 km².",
    "He ran 100 m in 9.58 s and 200 m in 19.19 s.",
    "Das Passwort vergessen? Klicken Sie hier.",
    "Bitte überweisen Sie 1.234,56 EUR bis zum 31.12.2026.",
    "我的电话坏了，明天再说。",
    "パスワードを忘れた場合は、管理者に連絡してください。",
    "The sk-learn and the task-list are in the desk-drawer-of-the-house.",
    "Is AKIA a prefix? Yes, and so is ghp_ or sk-.",
    "SG.rules are fun, hf_model_name is not.",
    "eyJust kidding. eyJ is how it starts.",
    "mention @ada or @grace.hopper on the forum, #tag",
    "user@localhost and root@web01 log in by key.",
    "Our prices: 19.99, 29.99 and 1,299.00.",
    "The flight LH 454 leaves at 10:05 from gate B23.",
    "Lat +48.137154, lon +11.576124 is Munich.",
    "temperatures: -12.5 +3.75 +21.0 °C",
)

CODE = (
    "api_key = os.environ['OPENAI_API_KEY']",
    "api_key = get_secret('openai', version=2)",
    "password: <your password here>",
    "password = getpass.getpass()",
    "password: str = Field(min_length=8)",
    "const token = await getToken(user2);",
    "token = request.headers['X-Token-V2']",
    "if (secret === undefined) throw new Error('E1001');",
    "self._password = password1",
    "SECRET_KEY = config('SECRET_KEY')",
    "access_token: ${ACCESS_TOKEN_V2}",
    "password: {{ vault_password_2 }}",
    "apiKey: process.env.API_KEY_2",
    "Authorization: Bearer <token>",
    "Authorization: Bearer ${TOKEN}",
    "@app.route('/users/<int:id>')",
    "@dataclass(frozen=True)\nclass A: x: int = 10",
    "npm install lodash@4.17.21 react@18.2.0",
    "pip install requests==2.31.0 # sha256:" + "ab" * 32,
    "git clone git@github.com:example/project.git",
    "image: registry.example.com/app@sha256:" + "0f" * 32,
    "foo@2x.png and icon@3x.webp",
    "file v2@1.0.zip",
    "systemctl restart getty@tty1.service",
    "docker run -u 1000:1000 -p 8080:80 nginx:1.25.3",
    "http://localhost:8080/a@b",
    "https://example.com:8443/path/to@here/x",
    "https://user@example.com/path",
    "ssh://git@example.com:22/x.git",
    "color: #ff00aa; background: #0a1b2c3d;",
    "0xDEADBEEF 0x7fffffffffffffff 0b1011",
    "int x[] = {4, 8, 15, 16, 23, 42};",
    "for (let i = 0; i < 1000000; i++) total += 3.14159265358979;",
    "SELECT * FROM users WHERE phone IS NULL AND id = 1234567;",
    "assert len(password) >= 12, 'password too short'",
    "type Secret = { name: string; version: 2 }",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkq\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1 ada",
    "1.2.3.4, 10.0.0.1, 192.168.178.20, 255.255.255.0",
    "2001:db8::1, fe80::1ff:fe23:4567:890a",
    "00:1B:44:11:3A:B7",
    "kubectl get pod web-6d4cf56db6-x7k2p -n prod",
    "arn:aws:iam::123456789012:role/deploy",
    "i-0abcdef1234567890 vpc-0a1b2c3d4e5f67890",
    "projects/my-app-123456/secrets/db-password/versions/2",
    'secretKeyRef: {"name": "db-credentials-v2", "key": "password"}',
    '"password": "string", "api_key": "string"',
    '"password": "********"',
    "PASSWORD=changeme",
    "test_token_is_refreshed_after_30_seconds",
    "sk_buff *skb = alloc_skb(1500, GFP_KERNEL);",
    "hf_transfer==0.1.6 npm_config_cache=/tmp/npm_cache_2",
    "key-value-pairs-of-2026 and key-0001",
    "pypi-server 2.0 and pypi-mirror-of-2024",
    "dp.pt is a domain, hvs.example.com too",
    "md5: d41d8cd98f00b204e9800998ecf8427e",
    "max_tokens=4096, token_count: 123456789, tokens: 8192",
    "csrf_token: {% csrf_token %}",
    "auth: basic, oauth2 or none",
)


def _negative(make: Maker) -> list[str]:
    """Texts without a secret, of the half that patterns are fitted to."""
    return [
        *PROSE,
        *CODE,
        *(f"request {make.uuid()} took 12 ms" for _ in range(6)),
        *(f"commit {make.hex(40)}" for _ in range(4)),
        *(f"sha256:{make.hex(64)}" for _ in range(4)),
        *(f"etag {make.hex(32)}" for _ in range(3)),
        *(f"call_{make.of(ALNUM, 24)} chatcmpl-{make.of(ALNUM, 29)}" for _ in range(3)),
        *(f"toolu_01{make.of(ALNUM, 22)} msg_{make.of(ALNUM, 24)} resp_{make.hex(48)}" for _ in range(3)),
        *(f"order {make.no_card('4', 16)} shipped" for _ in range(3)),
        *(f"data:image/png;base64,{make.base64(300)}" for _ in range(4)),
        *(f"blob {make.base64(90)}" for _ in range(4)),
        *(f"{make.number(1, 20)}.{make.number(0, 99)}.{make.number(0, 9999)}-rc{make.number(1, 9)}" for _ in range(3)),
        *(f"20{make.number(10, 29)}-0{make.number(1, 9)}-{make.number(10, 28)}T12:28:51.123456Z" for _ in range(3)),
        "timestamp 1700000000000 and 1700000000",
        "2026/11/16 12:28:51,123 INFO worker-3 done in 1234567 us",
        "ISBN 978-3-16-148410-0, ISBN 0-306-40615-2",
        "EAN 4006381333931, tracking 1Z999AA10123456784",
        "invoice 2026-000123-45, customer 0012345",
        "01-02-2024, 01.02.2024, 1/2/2024",
        "case 12-3456-7890, part no 555-0199",
        "x = 01 02 03 04 05 06 07 08",
        "DE 12345, GB 99, FR75001 Paris",
        "NL91 is a line of a table with 12 columns",
        "078-05-1120 is the number of a part",
        "serial 123-45-6789-0",
        "score 415-555 to 415-556",
        "lottery 03 14 15 92 65 35",
        "pi is 3.14159265358979323846264338327950288",
    ]


def _held_out_negative(make: Maker) -> list[str]:
    return [
        "The secret to good bread is time: 24 hours at 4 degrees.",
        "Tokens are cheap in 2026; a token is about 4 characters.",
        "Is the API key rotated every 90 days?",
        "The password is required and has to be changed in 30 days.",
        "The password is case-sensitive.",
        "password is not set in section2 of the file",
        "Our secret ingredient is cinnamon5spice.",
        "Use a bearer token (RFC 6750) for authentication.",
        "He was born 03-04-1985 and lives at 12345 Main St, Springfield 62704.",
        "The numbers 4-8-15-16-23-42 won.",
        "Chapter 02 1234 lines of text",
        "Row 0161 has 496 columns and 123 rows",
        "Part 06-1234-5678-90-12 of the catalogue",
        "He paid 4111 dollars, 1111 cents in 1111 parts.",
        "It costs +300 000 000 dollars.",
        "Mobile phones: 3 billion in 2013, 7 billion in 2023",
        "Call number QA76.73.P98 B43 2019",
        "telephone was invented in 1876 03 10",
        "Write an email to the team at example dot com",
        "See me@home tonight, c@t, and C@2.",
        "p@ssword is no good password",
        "maven: com.example:lib:1.2.3@aar",
        "spring@5.3.9.RELEASE and x@y",
        "deb package foo_1.2-3_amd64.deb, sha1 " + "a9" * 20,
        "user service@v1.2.3.tar.gz",
        "def password(self) -> str: return self._pw1",
        "os.getenv('DATABASE_PASSWORD2')",
        "password = input('Password 1: ')",
        "secret = secrets.token_hex(32)",
        "api_key=YOUR_API_KEY_HERE",
        "api-key: <insert-key-1-here>",
        "token: process.env['TOKEN_2']",
        "private_key_path: /etc/ssl/private/key1.pem",
        "password_file: /run/secrets/db_password_1",
        "PASSWORD_MIN_LENGTH=12",
        "token_type: bearer",
        "access_token_expires_in=3600",
        "password=None, token=None, secret2=None",
        "$password1 = $_POST['password1'];",
        "password: ENC[AES256_GCM]",
        'curl -u "$USER:$PASS" https://example.com',
        "curl --user :: https://example.com",
        "redis://localhost:6379/0 and postgres://db.internal:5432/shop",
        "https://example.com/?next=/a:b@c",
        "postgres://app:${DB_PASSWORD}@db/shop",
        "postgres://user:password@host:port/db",
        "grid-template: 1fr 2fr / 100px 200px; margin: 0 1234 5678px",
        "1234-5678-9012-3456 is a sample",
        "rgb(255, 128, 0) #A1B2C3",
        "uuid5: 00000000-0000-5000-8000-000000000000",
        "sk-toggleable__content sk-estimator sk-top-container",
        "data-testid=sk-button-primary-large-rounded",
        "pk_live_ is publishable, see the docs",
        "ghp is a team; gho_ is too",
        "https://hooks.slack.com/services is the address",
        "AIzawa is a name",
        "SKU SK0123456789 and SK-2024-0001",
        "dapi is a word of Sanskrit",
        "AccountKey= is missing",
        "sig=none&sv=1",
        "t1.micro, m5.large, s.1.2.3",
        "IBAN starts with two letters such as DE89",
        "SSN is short for social security number; form SS-5",
        "SSN block 2 has 12-34-56",
        "VAT DE123456789, BIC DEUTDEFF500",
        "Hex: 4a 6f 68 6e 20 44 6f 65",
        "2026-W47-1, 20261116T122851Z, P3Y6M4DT12H30M5S",
        "1e10 + 2e-5 * 3.0E+12",
        "ratio 16:9, score 3:2, bible John 3:16",
        "10.1000/182 doi:10.1038/s41586-020-2649-2 arXiv:2301.12345",
        "GET /api/v2/users/12345678/orders/987654321 200 1532",
        "pid 12345 tid 140735268 rss 1048576 kB",
        *(f"trace {make.hex(32)} span {make.hex(16)}" for _ in range(3)),
        *(f"object {make.uuid().upper()}" for _ in range(3)),
        *(f"batch_{make.hex(32)} file-{make.of(ALNUM, 24)} run_{make.of(ALNUM, 24)}" for _ in range(3)),
        *(f"integrity sha512-{make.base64(64)}" for _ in range(3)),
        *(f"order no. {make.of(DIGITS, 8)} of {make.of(DIGITS, 5)}" for _ in range(3)),
        *(f"nonce {make.of(ALNUM, 22)}" for _ in range(3)),
        *(f"id {make.no_card('5', 16)}" for _ in range(2)),
    ]


_make: Callable[[int], Maker] = Maker
POSITIVE, NEGATIVE = _positive(_make(1)), _negative(_make(2))
HELD_OUT_POSITIVE, HELD_OUT_NEGATIVE = _held_out_positive(_make(3)), _held_out_negative(_make(4))
TOKENS = _tokens(_make(5))
