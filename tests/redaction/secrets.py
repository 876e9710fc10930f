"""Invented secrets of every kind, and lookalikes."""

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx9n0mZ4v3ZJ0qk1Q\n8d3hQm5t2b1aWkYc7P0r\nab==\n"
    "-----END RSA PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

SECRETS = {
    "key": [
        "sk-proj-abcDEF1234567890abcdWXYZ",
        "sk-ant-api03-Zx9_8y7w6v5u4t3s2r1q",
        "sk_live_4eC39HqLyjWDarjtT1zd",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwx",
        "glpat-x1y2z3A4b5C6d7E8f9G0",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefGHIJKL",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "hf_abcdefGHIJKL1234567890mnop",
        JWT,
        PEM,
    ],
    "email": ["ada.lovelace+test@example.co.uk", "josé@exämple.de"],
    "card": ["4111111111111111", "4242 4242 4242 4242", "5500-0000-0000-0004", "3782 822463 10005"],
    "phone": ["+14155552671", "+49 30 901820-123", "+1 (415) 555-2671", "(415) 555-2671", "415-555-2671"],
}

SAID_OF = {
    "Authorization: Bearer {}": "abcDEF123456.ghi-JKL_789",
    "postgres://app:{}@db.internal:5432/main": "pa55w0rd",
    "postgres://app:{}@db.internal/main": "p@ss:w0rd",
    "Server=db;Pwd={};Database=x": "hunter2hunter2",
    '{{"api_key": "{}"}}': "abcd1234efgh",
    "AWS_SECRET_ACCESS_KEY={}": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "x-api-key: {}": "0123456789abcdef",
}
"""Secrets that are known by what is said around them, and stays."""

HARMLESS = [
    "a task-list of sk-folding-cube-something-long and an ask-me-anything page",
    "@app.route('/') and user@localhost and foo@1.2.3",
    "4111111111111112, 0.4111111111111111 and 1234 5678 9012 3456",
    "2026-11-16T12:28:51.123456Z, 10.0.0.1, 192.168.100.200, 1-800-555, +20 points",
    "password: string, api_key = get_key(), secret of the house, Bearer of good news",
    "0.1.2-3.4 and 1111111111111111 and 3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a",
    "-----BEGIN PRIVATE KEY----- is how it begins",
    "https://example.com:8080/path and http://[::1]:80/",
]
