"""What a person is told: messages of jobs, from RUN/outbox/ to mailboxes and webhooks; docs/mail.md."""
